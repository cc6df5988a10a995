#pragma once

#include <optional>
#include <string>

#include "compiler/algorithm/expr.h"

namespace astatide {

/// The x of `e` = `value`, where x occurs once in `e`, under operations that can be undone. Nothing where it does not.
/// Factors and divisors around it count as other than 0.
std::optional<Expr> isolate(const std::string& x, const Expr& e, const Expr& value);

}  // namespace astatide
