#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/scalar_type.h"

namespace astatide::runtime {

/// A tensor in host memory. `strides` count elements and may be 0 or negative; `offset` is the byte of the element at
/// index 0 in `data`. Elements are in the machine's byte order. A copy shares the data.
struct HostTensor {
  ScalarType dtype = ScalarType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<std::vector<std::byte>> data;
  std::size_t offset = 0;

  /// The address of the element at index 0.
  std::byte* origin() const { return data->data() + offset; }
  std::int64_t element_count() const;
};

/// The product of `shape`; throws UserError, naming `what`, when an extent is below 0 or the product times
/// `bytes_per_element` passes 2^63-1.
std::int64_t checked_element_count(std::span<const std::int64_t> shape, int bytes_per_element, const std::string& what);

/// Strides in elements of a dense tensor, the last axis fastest (or, for Fortran order, the first).
std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape, bool fortran_order = false);

/// A dense tensor of zeros. Throws UserError as checked_element_count, MachineError when there isn't enough memory.
HostTensor zeros(ScalarType dtype, std::vector<std::int64_t> shape);

/// Whether the elements lie one after the other, the last axis fastest. Strides of axes with one element don't matter.
bool is_dense(const HostTensor& tensor);

/// The element at a byte address as a double; exact but for 64-bit integers past 2^53. And the other way, rounded to
/// nearest even; integers are truncated towards zero and clamped to their range, NaN becomes 0.
double load_element(ScalarType dtype, const std::byte* address);
void store_element(ScalarType dtype, std::byte* address, double value);

/// The element at an index, one number an axis; the index is in range.
double get(const HostTensor& tensor, std::span<const std::int64_t> index);
void set(const HostTensor& tensor, std::span<const std::int64_t> index, double value);

/// All elements in the order of the index, the last axis fastest.
std::vector<double> to_doubles(const HostTensor& tensor);

/// A dense copy, with the elements converted to `dtype`; bit for bit when it is the tensor's own.
HostTensor dense_copy(const HostTensor& tensor, ScalarType dtype);

/// Calls `visit(address)` for every element in the order of the index; `address` is that of the one at index 0, strides
/// count elements.
template <class Visit>
void for_each_element(std::byte* address, ScalarType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::int64_t> strides, const Visit& visit) {
  const std::size_t rank = shape.size();
  for (std::int64_t extent : shape) {
    if (extent == 0) return;
  }
  const std::int64_t size = size_in_bytes(dtype);
  std::vector<std::int64_t> index(rank, 0);
  while (true) {
    visit(address);
    std::size_t axis = rank;
    while (axis > 0) {
      --axis;
      if (++index[axis] < shape[axis]) {
        address += strides[axis] * size;
        break;
      }
      address -= strides[axis] * size * (shape[axis] - 1);
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (rank == 0) return;
  }
}
template <class Visit>
void for_each_element(const HostTensor& tensor, const Visit& visit) {
  for_each_element(tensor.origin(), tensor.dtype, tensor.shape, tensor.strides, visit);
}

}  // namespace astatide::runtime
