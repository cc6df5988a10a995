#pragma once

#include <limits>

namespace astatide::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace astatide::testing
