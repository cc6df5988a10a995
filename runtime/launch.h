#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "runtime/module.h"
#include "runtime/stream.h"

namespace astatide::runtime {

struct Extent3 {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

struct LaunchShape {
  Extent3 grid;                   // blocks
  Extent3 block;                  // threads
  std::int64_t shared_bytes = 0;  // dynamic shared memory
  bool dependent = false;         // may start before the kernels in front in the stream have ended, and waits for them
};

/// One kernel parameter of at most 8 bytes, as the kernel declares it.
class ArgumentWord {
 public:
  /// A pointer into device memory.
  static ArgumentWord pointer(DevicePointer value) { return of(value); }
  static ArgumentWord i64(std::int64_t value) { return of(value); }
  static ArgumentWord i32(std::int32_t value) { return of(value); }
  static ArgumentWord f32(float value) { return of(value); }

  const void* address() const { return bytes_.data(); }

 private:
  template <class T>
  static ArgumentWord of(T value) {
    static_assert(sizeof(T) <= 8);
    ArgumentWord word;
    std::memcpy(word.bytes_.data(), &value, sizeof(T));
    return word;
  }

  alignas(8) std::array<std::byte, 8> bytes_{};
};

/// Throws UserError with each number and its limit when the device can't run blocks or a grid of this shape: at most
/// 2^31-1 by 65535 by 65535 blocks, 1024 by 1024 by 64 threads and 1024 in all, and the shared memory that the device
/// can give one block.
void check_launch_shape(const LaunchShape& shape, const DeviceFacts& device, std::string_view kernel,
                        int static_shared_bytes);

/// Blocks of a kernel that the context's device runs at once; at least 1. The shape's grid is of no matter.
std::int64_t resident_blocks(const KernelFunction& function, const LaunchShape& shape, const Context& context);

/// Puts a kernel into the stream and doesn't wait. The words are the kernel's parameters in order; they may die when
/// this returns. A grid with an extent of 0 has no blocks: nothing is launched. Throws UserError as check_launch_shape.
void launch(const KernelFunction& function, const LaunchShape& shape, const Stream& stream,
            std::span<const ArgumentWord> arguments);

/// As above for parameters of any size, tensor maps among them: the address of each.
void launch(const KernelFunction& function, const LaunchShape& shape, const Stream& stream,
            std::span<const void* const> parameters);

}  // namespace astatide::runtime
