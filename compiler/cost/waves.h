#pragma once

#include <cstdint>
#include <vector>

namespace astatide::cost {

struct Makespan {
  double clocks = 0;
  double tail = 0;  // share of all slots' time in which they have nothing left
};
/// Tiles in the order in which they are taken, each by the slot that is free first. `first` instead of `each` where a
/// slot begins with it.
Makespan distribute(const std::vector<double>& each, const std::vector<double>& first, std::int64_t slots);

}  // namespace astatide::cost
