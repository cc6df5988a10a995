#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace astatide::runtime {

/// A tensor of 16-bit elements as TMA copies boxes from it or to it: dimensions innermost first, strides of all but the
/// first.
struct TiledTensor {
  std::string name;                    // for messages
  std::uint64_t address = 0;           // of the first element, in device memory
  bool bfloat = false;                 // else f16
  std::vector<std::uint64_t> extents;  // 1 or more
  std::vector<std::int64_t> strides;   // in elements; the first is that of the innermost dimension
  std::vector<std::uint32_t> box;      // the innermost one is 64 elements, 128 bytes
  bool stored = false;                 // for messages: TMA writes it
};

/// The driver's 128 bytes, as a kernel's parameter holds them.
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes{};
};

/// Describes the tensor with the 128-byte swizzle and zeros outside. Throws UserError with the tensor, the number and
/// the rule where TMA can't copy it: an innermost stride other than 1, a base or another stride that is no multiple of
/// 16 bytes. Source: CUDA Driver API, cuTensorMapEncodeTiled.
TensorMap encode_tensor_map(const TiledTensor& tensor);

}  // namespace astatide::runtime
