#pragma once

#include "api/astatide.h"
#include "runtime/buffer.h"
#include "runtime/host_tensor.h"

namespace astatide::testing {

/// Device memory with a dense tensor's shape.
class DeviceTensor {
 public:
  DeviceTensor(const runtime::Context& context, ScalarType type, std::vector<std::int64_t> shape)
      : type_(type),
        shape_(std::move(shape)),
        buffer_(context, static_cast<std::size_t>(
                             runtime::checked_element_count(shape_, size_in_bytes(type), "a test's tensor") *
                             size_in_bytes(type))) {}

  TensorView view() const {
    return {reinterpret_cast<void*>(buffer_.pointer()), type_, shape_, runtime::dense_strides(shape_)};
  }
  void put(const runtime::HostTensor& tensor, const runtime::Stream& stream) {
    buffer_.copy_from_host(*tensor.data, stream);
  }
  runtime::HostTensor take(const runtime::Stream& stream) const {
    runtime::HostTensor out = runtime::zeros(type_, shape_);
    buffer_.copy_to_host(*out.data, stream);
    return out;
  }
  runtime::DeviceBuffer& buffer() { return buffer_; }

 private:
  ScalarType type_;
  std::vector<std::int64_t> shape_;
  runtime::DeviceBuffer buffer_;
};

}  // namespace astatide::testing
