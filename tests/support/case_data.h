// Inputs with known results, and random ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/algorithm/evaluate.h"

namespace astatide::testing {

using Sizes = std::map<std::string, std::int64_t>;

/// examples/NAME.yaml.
Algorithm example_algorithm(std::string_view name);

/// A tensor whose element at an index (outermost first) is what `f` says.
DoubleTensor make_tensor(const std::vector<std::int64_t>& shape,
                         const std::function<double(const std::vector<std::int64_t>&)>& f);
DoubleTensor constant_tensor(const std::vector<std::int64_t>& shape, double value);
/// Normal with mean 0 and variance 1.
DoubleTensor gaussian_tensor(const std::vector<std::int64_t>& shape, std::uint32_t seed);

/// The shape that an input has for these extents.
std::vector<std::int64_t> shape_of_input(const Algorithm& algorithm, const std::string& input, const Sizes& extents);

/// Q = 0 and K finite and uneven, so that every visible key has the same weight and L = ln(number of visible keys);
/// V[j] = (j+1)/256 in every channel, exact in f16 up to j = 2046. Other inputs are left to the caller.
Arguments zero_q_ramp_v(const Algorithm& algorithm, const Sizes& extents);
/// Q and K of one value each, V the ramp of zero_q_ramp_v.
Arguments constant_scores(const Algorithm& algorithm, const Sizes& extents, double q, double k);
/// Every floating input Gaussian, each with a seed of its own made from `seed`. Inputs of integers are left to the
/// caller.
Arguments gaussian_arguments(const Algorithm& algorithm, const Sizes& extents, std::uint32_t seed);

/// One element of a tensor.
double element(const DoubleTensor& tensor, const std::vector<std::int64_t>& index);

}  // namespace astatide::testing
