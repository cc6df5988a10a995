#include "compiler/rewrite/expression_limit.h"

namespace astatide {

void check_expression_size(const Expr& e, const std::string& what, const Location& where) {
  if (e.tree_size() <= kMaxExpressionSize) return;
  throw UserError(where, what + ", with the definitions that it reads written out, has " +
                             std::to_string(e.tree_size()) + " operations and operands, more than the limit " +
                             std::to_string(kMaxExpressionSize));
}

}  // namespace astatide
