#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/algorithm/expr.h"

// Interval and affine analysis of integer expressions, with symbolic ends: what predicates say about whole tiles.

namespace astatide::tile {

/// low <= e <= high, both attained or not.
struct Bounds {
  Expr low, high;
};

/// Bounds of an integer expression while each name of `ranges` runs over its bounds and every other name stays as it
/// is. Nothing where an operation is not monotone in what varies, or a tensor is read at an index that varies.
std::optional<Bounds> bounds_of(const Expr& e, const std::map<std::string, Bounds>& ranges);

/// e == factor * name + rest, where rest does not read the name.
struct LinearForm {
  std::int64_t factor = 0;
  Expr rest;
};
std::optional<LinearForm> linear_in(const Expr& e, const std::string& name);

/// The same sum with equal terms collected, constants last; an expression that is no sum stays as it is.
Expr collect_terms(const Expr& e);

}  // namespace astatide::tile
