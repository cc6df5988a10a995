#pragma once

#include <cstddef>
#include <span>

#include "runtime/stream.h"

namespace astatide::runtime {

/// Device memory that is freed with this value. `bytes` may be 0: then there is no memory and `pointer` is 0. Copies
/// and fills are ordered in the stream that is given.
class DeviceBuffer {
 public:
  /// Throws MachineError with the sizes when the device has not enough memory left.
  DeviceBuffer(const Context& context, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  DevicePointer pointer() const { return pointer_; }
  std::size_t size() const { return bytes_; }
  const Context& context() const { return context_; }

  /// All bytes 0 when this returns; has no part in a graph that is being captured.
  static DeviceBuffer of_zeros(const Context& context, std::size_t bytes);

  /// `source` may be changed when this returns.
  void copy_from_host(std::span<const std::byte> source, const Stream& stream, std::size_t offset = 0);
  /// Returns when the bytes have arrived.
  void copy_to_host(std::span<std::byte> destination, const Stream& stream, std::size_t offset = 0) const;
  void fill(std::byte value, const Stream& stream);

 private:
  void check_range(std::size_t offset, std::size_t bytes) const;
  void release() noexcept;

  Context context_;
  DevicePointer pointer_ = 0;
  std::size_t bytes_ = 0;
};

/// The same from memory that is another's, in the current context.
void copy_to_host(DevicePointer source, std::span<std::byte> destination, const Stream& stream);

}  // namespace astatide::runtime
