#include "api/host_integers.h"

#include <algorithm>

#include "runtime/host_tensor.h"

namespace astatide {

DataRange data_range(const TensorView& view) {
  DataRange range{INT64_MAX, INT64_MIN};
  const std::int64_t size = size_in_bytes(view.dtype);
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  for (std::size_t n = 0; n < view.shape.size(); ++n) {
    if (view.shape[n] == 0) return {0, 0};
    // The same element again and again.
    if (view.strides[n] == 0) continue;
    shape.push_back(view.shape[n]);
    strides.push_back(view.strides[n] * size);
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  const auto* address = static_cast<const std::byte*>(view.data);
  while (true) {
    const auto value = static_cast<std::int64_t>(runtime::load_element(view.dtype, address));
    range = {std::min(range.first, value), std::max(range.second, value)};
    std::size_t axis = shape.size();
    while (true) {
      if (axis == 0) return range;
      --axis;
      address += strides[axis];
      if (++index[axis] < shape[axis]) break;
      address -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::optional<std::int64_t> integer_at(const TensorView& view, const std::vector<std::int64_t>& index) {
  const auto* address = static_cast<const std::byte*>(view.data);
  for (std::size_t n = 0; n < view.shape.size(); ++n) {
    if (index[n] < 0 || index[n] >= view.shape[n]) return std::nullopt;
    address += index[n] * view.strides[n] * size_in_bytes(view.dtype);
  }
  return static_cast<std::int64_t>(runtime::load_element(view.dtype, address));
}

std::optional<Decrease> find_decrease(const TensorView& view) {
  if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) return std::nullopt;
  std::vector<std::int64_t> index(view.shape.size(), 0);
  std::int64_t before = 0;
  while (true) {
    const std::int64_t value = integer_at(view, index).value();
    if (index.back() > 0 && value < before) return Decrease{index, before, value};
    before = value;
    std::size_t axis = index.size();
    while (true) {
      if (axis == 0) return std::nullopt;
      --axis;
      if (++index[axis] < view.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace astatide
