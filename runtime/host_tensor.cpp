#include "runtime/host_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "compiler/support/diagnostic.h"
#include "compiler/support/half.h"

namespace astatide::runtime {
namespace {

template <class T>
T read_as(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <class T>
void write_as(std::byte* address, T value) {
  std::memcpy(address, &value, sizeof(T));
}

template <class Integer>
Integer clamped(double value) {
  if (std::isnan(value)) return 0;
  // The largest 64-bit integer isn't a double; its successor is, and is the first value out of range.
  const double beyond = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (value >= beyond) return std::numeric_limits<Integer>::max();
  if (value <= static_cast<double>(std::numeric_limits<Integer>::min())) return std::numeric_limits<Integer>::min();
  return static_cast<Integer>(value);
}

std::byte* address_of(const HostTensor& tensor, std::span<const std::int64_t> index) {
  std::int64_t elements = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) elements += index[axis] * tensor.strides[axis];
  return tensor.origin() + elements * size_in_bytes(tensor.dtype);
}

}  // namespace

std::int64_t checked_element_count(std::span<const std::int64_t> shape, int bytes_per_element,
                                   const std::string& what) {
  std::string text;
  for (std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  bool empty = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) throw UserError(fmt::format("{}: the shape ({}) holds an extent below 0", what, text));
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  std::int64_t count = 1, bytes = bytes_per_element;
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count) || __builtin_mul_overflow(bytes, extent, &bytes)) {
      throw UserError(fmt::format("{}: a shape of ({}) with {} bytes an element passes 2^63-1 bytes", what, text,
                                  bytes_per_element));
    }
  }
  return count;
}

std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape, bool fortran_order) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = fortran_order ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    // An empty tensor has no elements to reach; the product of its other extents may overflow.
    if (__builtin_mul_overflow(stride, shape[axis] == 0 ? 1 : shape[axis], &stride)) stride = 1;
  }
  return strides;
}

std::int64_t HostTensor::element_count() const { return checked_element_count(shape, size_in_bytes(dtype), "tensor"); }

HostTensor zeros(ScalarType dtype, std::vector<std::int64_t> shape) {
  HostTensor tensor;
  tensor.dtype = dtype;
  const std::int64_t bytes = checked_element_count(shape, size_in_bytes(dtype), "tensor") * size_in_bytes(dtype);
  tensor.strides = dense_strides(shape);
  tensor.shape = std::move(shape);
  try {
    tensor.data = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  } catch (const std::exception&) {  // std::bad_alloc, std::length_error
    throw MachineError(fmt::format("{} bytes of memory for a tensor can't be had", bytes));
  }
  return tensor;
}

bool is_dense(const HostTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t axis = tensor.shape.size(); axis > 0;) {
    --axis;
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

double load_element(ScalarType dtype, const std::byte* address) {
  switch (dtype) {
    case ScalarType::f32:
      return static_cast<double>(read_as<float>(address));
    case ScalarType::f16:
      return static_cast<double>(f16_to_f32(read_as<std::uint16_t>(address)));
    case ScalarType::bf16:
      return static_cast<double>(bf16_to_f32(read_as<std::uint16_t>(address)));
    case ScalarType::f64:
      return read_as<double>(address);
    case ScalarType::i32:
      return read_as<std::int32_t>(address);
    case ScalarType::i64:
      return static_cast<double>(read_as<std::int64_t>(address));
    case ScalarType::u8:
      return read_as<std::uint8_t>(address);
    case ScalarType::boolean:
      return read_as<std::uint8_t>(address) != 0 ? 1.0 : 0.0;
  }
  throw InternalError("a tensor without an element type");
}

void store_element(ScalarType dtype, std::byte* address, double value) {
  switch (dtype) {
    case ScalarType::f32:
      return write_as(address, static_cast<float>(value));
    case ScalarType::f16:
      return write_as(address, f64_to_f16(value));
    case ScalarType::bf16:
      return write_as(address, f64_to_bf16(value));
    case ScalarType::f64:
      return write_as(address, value);
    case ScalarType::i32:
      return write_as(address, clamped<std::int32_t>(value));
    case ScalarType::i64:
      return write_as(address, clamped<std::int64_t>(value));
    case ScalarType::u8:
      return write_as(address, clamped<std::uint8_t>(value));
    case ScalarType::boolean:
      return write_as(address, static_cast<std::uint8_t>(value != 0));
  }
  throw InternalError("a tensor without an element type");
}

double get(const HostTensor& tensor, std::span<const std::int64_t> index) {
  return load_element(tensor.dtype, address_of(tensor, index));
}

void set(const HostTensor& tensor, std::span<const std::int64_t> index, double value) {
  store_element(tensor.dtype, address_of(tensor, index), value);
}

std::vector<double> to_doubles(const HostTensor& tensor) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(tensor.element_count()));
  for_each_element(tensor, [&](const std::byte* address) { values.push_back(load_element(tensor.dtype, address)); });
  return values;
}

HostTensor dense_copy(const HostTensor& tensor, ScalarType dtype) {
  HostTensor copy = zeros(dtype, tensor.shape);
  std::byte* to = copy.origin();
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  if (dtype == tensor.dtype && is_dense(tensor)) {
    std::copy_n(tensor.origin(), copy.data->size(), to);
    return copy;
  }
  for_each_element(tensor, [&](const std::byte* address) {
    if (dtype == tensor.dtype) {
      std::memcpy(to, address, size);
    } else {
      store_element(dtype, to, load_element(tensor.dtype, address));
    }
    to += size;
  });
  return copy;
}

}  // namespace astatide::runtime
