#pragma once

#include <set>
#include <string>

#include "compiler/algorithm/expr.h"

namespace astatide {

/// Which names can hold values at which arithmetic breaks down.
struct GuardFacts {
  std::set<std::string> extrema;   // minus infinity where a row has no element
  std::set<std::string> totals;    // sums: zero where a row has no element
  std::set<std::string> elements;  // can be infinite where absent
};

/// The same value wherever the plain expression has one, and no NaN where a row, or an element, is empty: exponents
/// read their references through safe(), and a factor that can be 0 absorbs one that can be infinite. Source:
/// compiler/rewrite/README.md.
Expr guarded(const Expr& e, const GuardFacts& facts);

}  // namespace astatide
