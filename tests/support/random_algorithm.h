// Random algorithms that mean something: every one passes check_algorithm.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/algorithm/evaluate.h"

namespace astatide::testing {

/// The same algorithm for the same seed. It uses every construct of the language.
Algorithm random_algorithm(std::uint32_t seed);

/// Small extents and values for all its inputs; those of integers hold small whole numbers of both signs.
Arguments random_arguments(const Algorithm& algorithm, std::uint32_t seed);

bool all_finite(const std::map<std::string, DoubleTensor>& tensors);

}  // namespace astatide::testing
