#pragma once

#include <string>
#include <vector>

#include "compiler/algorithm/source_text.h"

namespace astatide {

/// One word of an expression.
struct Token {
  enum class Kind { integer, real, name, symbol, end };
  Kind kind = Kind::end;
  /// The name, the symbol such as "<=", or the digits.
  std::string text;
  double real = 0;
  /// Digits of an integer are kept as text, since -9223372036854775808 fits only with its sign.
  std::size_t offset = 0;
};

/// The words of an expression, the last one of kind `end`. Throws UserError at a character that is none of the
/// language's.
std::vector<Token> split_into_tokens(const SourceText& source);

}  // namespace astatide
