#include "runtime/buffer.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {

DeviceBuffer::DeviceBuffer(const Context& context, std::size_t bytes) : context_(context), bytes_(bytes) {
  if (bytes == 0) return;
  const Driver& cuda = driver();
  const ScopedCurrent scope(context_);
  const DriverResult result = cuda.api().mem_alloc(&pointer_, bytes);
  if (result == DriverResult::out_of_memory) {
    std::size_t free = 0, total = 0;
    cuda.check(cuda.api().mem_get_info(&free, &total), "ask for the free memory");
    throw MachineError(fmt::format("{} bytes of device memory are needed, cuda:{} has {} of {} free", bytes,
                                   context_.device().ordinal, free, total));
  }
  cuda.check(result, "allocate ", bytes, " bytes of device memory");
}

DeviceBuffer DeviceBuffer::of_zeros(const Context& context, std::size_t bytes) {
  const OutsideCapture outside;
  DeviceBuffer buffer(context, bytes);
  const Stream stream = Stream::create(context);
  buffer.fill(std::byte{0}, stream);
  stream.synchronize();
  return buffer;
}

DeviceBuffer::~DeviceBuffer() { release(); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : context_(other.context_), pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  context_ = other.context_;
  pointer_ = std::exchange(other.pointer_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceBuffer::release() noexcept {
  if (pointer_ != 0) release_in(context_, [&] { driver().api().mem_free(pointer_); });
  pointer_ = 0;
}

void DeviceBuffer::check_range(std::size_t offset, std::size_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    throw InternalError(fmt::format("{} bytes at {} lie outside a device buffer of {}", bytes, offset, bytes_));
  }
}

void DeviceBuffer::copy_from_host(std::span<const std::byte> source, const Stream& stream, std::size_t offset) {
  check_range(offset, source.size());
  if (source.empty()) return;
  const ScopedCurrent scope(context_);
  const Driver& cuda = driver();
  cuda.check(cuda.api().memcpy_htod_async(pointer_ + offset, source.data(), source.size(), stream.handle()), "copy ",
             source.size(), " bytes to the device");
  // Pageable memory is staged before the call returns, page-locked memory of the caller is not.
  stream.synchronize();
}

void DeviceBuffer::copy_to_host(std::span<std::byte> destination, const Stream& stream, std::size_t offset) const {
  check_range(offset, destination.size());
  const ScopedCurrent scope(context_);
  runtime::copy_to_host(pointer_ + offset, destination, stream);
}

void DeviceBuffer::fill(std::byte value, const Stream& stream) {
  if (bytes_ == 0) return;
  const ScopedCurrent scope(context_);
  driver().check(driver().api().memset_d8_async(pointer_, static_cast<unsigned char>(value), bytes_, stream.handle()),
                 "fill ", bytes_, " bytes of device memory");
}

void copy_to_host(DevicePointer source, std::span<std::byte> destination, const Stream& stream) {
  if (destination.empty()) return;
  const Driver& cuda = driver();
  stream.check(cuda.api().memcpy_dtoh_async(destination.data(), source, destination.size(), stream.handle()), "copy ",
               destination.size(), " bytes from the device");
  stream.synchronize();
}

}  // namespace astatide::runtime
