#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/algorithm/expr.h"

namespace astatide::cuda {

enum class ValueType { integer, real, boolean };

/// C++ text of an expression, with its type and how tightly it binds.
struct Text {
  std::string text;
  ValueType type = ValueType::real;
  int precedence = 100;  // 100: needs no parentheses anywhere
  bool wide = false;     // an integer of 64 bits: it holds a product of run-time numbers
};

/// What names and reads mean where an expression stands.
struct TextScope {
  std::function<Text(const std::string& name)> variable;
  /// The element at the given index texts, converted to float or int.
  std::function<Text(const std::string& tensor, const std::vector<std::string>& indices)> read;
  /// The address of an element, and the step to the next one of its row: "address, stride".
  std::function<std::string(const std::string& tensor, const std::vector<std::string>& indices)> row{};
  /// Names that are never negative, so that division of integers needs no rounding down.
  std::function<bool(const std::string& name)> non_negative;
  /// Condition that exponentials are computed by a polynomial; empty: never.
  std::string polynomial{};
  /// Functions that an instruction approximates.
  std::vector<Op> approximate{};
};

Text text_of(const Expr& e, const TextScope& scope);
std::string real_text(const Expr& e, const TextScope& scope);
std::string integer_text(const Expr& e, const TextScope& scope);
/// The same behind a comparison, or in front of a difference.
std::string limit_text(const Expr& e, const TextScope& scope);
/// The same as an int, where what it holds is known to be one.
std::string narrow_text(const Expr& e, const TextScope& scope);
std::string condition_text(const Expr& e, const TextScope& scope);
/// A float literal: "0.5f", "-kInfinity".
std::string float_literal(double value);

}  // namespace astatide::cuda
