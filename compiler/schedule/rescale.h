#pragma once

#include "compiler/schedule/schedule.h"

namespace astatide {

/// How far weights may grow, in log2: past `grow` references follow, past `over` a tile is computed again.
struct RescaleBounds {
  int grow = 0, over = 0;

  friend bool operator==(const RescaleBounds&, const RescaleBounds&) = default;
};

/// The numbers of a schedule that is lazy or optimistic, and for those left out 30 and 60, or 8 and 14 where weights
/// are rounded to f16. Throws UserError where that type can't hold what the schedule asks for.
RescaleBounds rescale_bounds(const Schedule& schedule, ScalarType weights);

/// Where a schedule speaks of one of the keys of {online: {..}}.
Location place_of_rescale(const Schedule& schedule, const std::string& key = "rescale");

}  // namespace astatide
