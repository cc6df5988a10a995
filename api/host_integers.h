#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "api/shapes.h"

// Tensors of integers in host memory.

namespace astatide {

/// Least and largest element; 0 and 0 where there is none.
using DataRange = std::pair<std::int64_t, std::int64_t>;
DataRange data_range(const TensorView& view);

/// The element at an index; nothing outside of the tensor.
std::optional<std::int64_t> integer_at(const TensorView& view, const std::vector<std::int64_t>& index);

/// An element that is less than the one before it in the last dimension.
struct Decrease {
  std::vector<std::int64_t> index;
  std::int64_t before = 0, value = 0;
};
std::optional<Decrease> find_decrease(const TensorView& view);

}  // namespace astatide
