// Random schedules that are legal for an algorithm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "compiler/schedule/schedule.h"

namespace astatide::testing {

/// Draws placements for every definition along the axis, every operand and the main output until check_legal takes
/// them. Gives up with nothing after many draws. Tiles are small (up to `largest_tile`), so that small shapes have
/// several. `sizes` holds the extents of the request.
std::optional<Schedule> random_schedule(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& sizes,
                                        std::mt19937& random, int largest_tile = 32);

}  // namespace astatide::testing
