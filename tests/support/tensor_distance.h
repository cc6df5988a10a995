// Random inputs of an algorithm, and how far two results lie apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "compiler/algorithm/evaluate.h"

namespace astatide::testing {

/// What two evaluations in double precision may differ by.
inline constexpr double kTolerance = 1e-9;

/// Sorts the rows of an input that is said to be monotone.
inline void sort_if_monotone(const Input& input, DoubleTensor& tensor) {
  if (!input.monotone) return;
  for (auto row = tensor.values.begin(); row != tensor.values.end(); row += tensor.shape.back())
    std::sort(row, row + tensor.shape.back());
}

/// Normal numbers; integers 0 to 2.
inline Arguments random_inputs(const Algorithm& algorithm, std::map<std::string, std::int64_t> extents,
                               std::mt19937& random) {
  Arguments out;
  out.extents = std::move(extents);
  std::normal_distribution<double> normal;
  for (const Input& input : algorithm.inputs) {
    DoubleTensor tensor;
    std::int64_t count = 1;
    for (const Expr& dim : input.dims) {
      tensor.shape.push_back(evaluate_integer(dim, out.extents));
      count *= tensor.shape.back();
    }
    for (std::int64_t n = 0; n < count; ++n)
      tensor.values.push_back(input.dtype == ScalarType::i32 ? static_cast<double>(random() % 3) : normal(random));
    sort_if_monotone(input, tensor);
    out.inputs[input.name] = std::move(tensor);
  }
  return out;
}

/// The largest difference; infinite where one is NaN and the other not.
inline double distance(const DoubleTensor& a, const DoubleTensor& b) {
  if (a.shape != b.shape) return std::numeric_limits<double>::infinity();
  double out = 0;
  for (std::size_t n = 0; n < a.values.size(); ++n) {
    const double x = a.values[n], y = b.values[n];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y) / std::max(1.0, std::abs(y));
    out = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(out, difference);
  }
  return out;
}

inline double distance(const std::map<std::string, DoubleTensor>& a, const std::map<std::string, DoubleTensor>& b) {
  double out = 0;
  for (const auto& [name, tensor] : b) out = std::max(out, distance(a.at(name), tensor));
  return out;
}

/// Extents of an example: two query heads, lengths as given, all others small.
inline std::map<std::string, std::int64_t> small_extents(const Algorithm& algorithm, std::int64_t sq, std::int64_t sk) {
  const std::map<std::string, std::int64_t> all = {{"B", 1},    {"Hq", 2},    {"Hkv", 1}, {"Sq", sq},
                                                   {"Sk", sk},  {"D", 5},     {"Dv", 6},  {"Prefix", 7},
                                                   {"Left", 9}, {"Right", 2}, {"R", 2}};
  std::map<std::string, std::int64_t> out;
  for (const Extent& extent : algorithm.extents) out[extent.name] = all.at(extent.name);
  return out;
}

}  // namespace astatide::testing
