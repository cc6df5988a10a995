#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "runtime/stub/astatide_launch_rules.h"

namespace astatide {

using Extents = std::map<std::string, std::int64_t>;

constexpr std::int64_t kLargestExtent = ASTATIDE_LARGEST_EXTENT;

/// An input or output as the algorithm declares it.
struct DeclaredTensor {
  std::string name;
  std::vector<Expr> dims;  // over extents
  bool output = false;
  bool updated = false;  // an input that updates store into

  bool is_written() const { return output || updated; }
};
std::vector<DeclaredTensor> declared_tensors(const Algorithm& algorithm);

/// Extents that shapes show. Adds to `errors`: names that the algorithm has not, other numbers of dimensions,
/// disagreement among the shapes and with `given`.
Extents solve_extents(const std::vector<DeclaredTensor>& declared, const std::map<std::string, TensorView>& tensors,
                      const Extents& given, Diagnostics& errors);

/// Refuses extents that no kernel can have: below 0, over kLargestExtent, absent, and products over 2^63.
void check_extents(const Algorithm& algorithm, const Extents& extents, Diagnostics& errors);

/// The value of a shape's expression; throws UserError where it leaves 64 bits.
std::vector<std::int64_t> evaluate_shape(const std::vector<Expr>& dims, const Extents& extents);

/// "Q[B, Hq, Sq, D]"
std::string describe(const DeclaredTensor& tensor);

/// An index that maps an axis onto a shorter or longer one by an integer division of extents, such as h*Hkv/Hq: the
/// groups are even where one extent is a multiple of the other.
struct AxisGroup {
  std::string text;
  Expr from, onto;
};
std::vector<AxisGroup> find_axis_groups(const Algorithm& algorithm);
/// Refuses extents that give groups of unequal sizes, with both numbers.
void check_axis_groups(const std::vector<AxisGroup>& groups, const Extents& extents, Diagnostics& errors);

}  // namespace astatide
