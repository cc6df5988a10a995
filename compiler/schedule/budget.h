#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "compiler/support/scalar_type.h"

namespace astatide {

/// A tile in shared memory, with what decides its size.
struct BudgetBuffer {
  std::string name;
  AxisNumbers dims;  // extent in storage of each axis
  ScalarType type = ScalarType::f32;
  int slots = 1;  // of a ring
  int teams = 1;  // each with a tile of its own

  std::int64_t bytes() const;  // saturates at the largest integer
};

/// What one kernel keeps in shared memory, or in a core's workspace.
struct Budget {
  std::string root;  // the definition whose kernel it is
  Location where;    // of its tile
  AxisNumbers tile;
  /// The axis of which some buffers hold the whole row, and the extent whose bound sizes it; empty where there is none.
  std::string row_axis, row_extent;
  std::vector<BudgetBuffer> buffers;

  std::int64_t bytes() const;  // saturates
};

/// The largest bound on `row_extent`, in whole tiles, with which the kernel fits; 0 where none does.
std::int64_t largest_row(const Budget& budget, const Target& target);

/// Refuses a kernel whose buffers don't fit, with both numbers, the buffers, and the changes that would make them fit:
/// fewer slots, a smaller tile, the largest bound.
void check_budget(const Budget& budget, const Schedule& schedule, const Target& target, Diagnostics& errors);

}  // namespace astatide
