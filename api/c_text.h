#pragma once

#include <functional>
#include <string>

#include "compiler/algorithm/expr.h"

// Expressions over extents as C11, for exported code.

namespace astatide {

/// What a name stands for in C, and which values it has.
struct CName {
  std::string text;
  double least = 0, most = 0;
};
using CNames = std::function<CName(const std::string& name)>;

/// An expression of int64_t with the value of evaluate_integer. Operations that may leave 64 bits or divide by 0 are
/// calls that then set `fault`, an int beside it; `uses_fault` becomes true where there is one.
std::string integer_in_c(const Expr& e, const CNames& names, bool& uses_fault);

/// An expression of double with the value of evaluate_real, for <math.h>.
std::string real_in_c(const Expr& e, const std::function<std::string(const std::string& name)>& names);

/// An expression of astatide_range: the values of an index, given those of its names. Throws InternalError for reads.
std::string range_in_c(const Expr& e, const std::function<std::string(const std::string& name)>& names);

/// A string literal.
std::string c_string(const std::string& text);

}  // namespace astatide
