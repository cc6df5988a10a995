#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/algorithm/evaluate.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A sum of products of elements, which one place of `axes` adds a term to: two operations.
struct CountedProduct {
  std::string definition;
  Expr sum;
  std::vector<std::string> axes;  // the definition's, then those that are summed
  /// Conjunctions, one of which holds where the term reaches an output: predicates of what is read beside it, and of
  /// what reads it. One without predicates: everywhere.
  std::vector<std::vector<Expr>> needed;
};

/// All that outputs need. Of a definition that is read at other places than its own axes (S[b,h,i,j/2]) every place
/// counts as needed.
std::vector<CountedProduct> products_of(const Algorithm& algorithm);

/// The values of an input of integers or booleans; null where there are none.
using InputValues = std::function<const DoubleTensor*(const std::string& name)>;

/// Operations of an algorithm's products, whatever computes them.
struct VisibleWork {
  double all = 0;                 // at every place
  std::optional<double> visible;  // where a term reaches an output: what no mask hides, to the element
  std::string why_not;            // there is no such number: what it depends on
};

/// Counted for each place of what masks depend on, and no more: by intervals where predicates are linear along an axis,
/// or compare with what is monotone along it, else place by place, up to kMostVisiblePlaces.
VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         const InputValues& inputs = {});
inline constexpr std::int64_t kMostVisiblePlaces = std::int64_t{1} << 26;

/// Inputs that masks read: what `inputs` is asked for.
std::vector<std::string> inputs_of_masks(const Algorithm& algorithm);

}  // namespace astatide
