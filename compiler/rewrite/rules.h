#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "compiler/algorithm/expr.h"

namespace astatide {

/// lhs = rhs wherever both have a value. The names x, y and c of `lhs` stand for any expression; one that occurs twice
/// stands for the same.
struct Rule {
  std::string_view name;
  Expr lhs;
  Expr rhs;
};

/// Writes an expression over + * pow exp log and atoms, which is what the normal form is made of.
std::span<const Rule> core_rules();

/// The right side for an expression that the left side matches as a whole, or none. No rule applies where it would
/// change nothing.
std::optional<Expr> apply_rule(const Rule& rule, const Expr& e);

/// `e` with rules applied from the operands upwards until none applies.
Expr simplify(const Expr& e, std::span<const Rule> rules);

}  // namespace astatide
