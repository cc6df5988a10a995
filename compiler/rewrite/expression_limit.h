#pragma once

#include "compiler/algorithm/expr.h"
#include "compiler/support/diagnostic.h"

namespace astatide {

/// Definitions that are written out where they are read can double in size line by line.
inline constexpr std::uint32_t kMaxExpressionSize = 4096;

/// Throws UserError where `e`, written out, is larger than later steps are to work through. `what` begins the message.
void check_expression_size(const Expr& e, const std::string& what, const Location& where);

}  // namespace astatide
