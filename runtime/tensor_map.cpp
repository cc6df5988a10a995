#include "runtime/tensor_map.h"

#include <fmt/format.h>

#include "compiler/support/diagnostic.h"
#include "runtime/driver.h"

namespace astatide::runtime {
namespace {

// Values of cuda.h, CUtensorMapDataType and its neighbours.
constexpr int kFloat16 = 6, kBfloat16 = 9;
constexpr int kNoInterleave = 0, kSwizzle128 = 3, kPromoteL2To256 = 3, kZeros = 0;
constexpr std::int64_t kBytes = 2;       // of an element
constexpr std::int64_t kAlignment = 16;  // bytes

void check_copied(const TiledTensor& tensor) {
  const std::vector<std::string> notes{tensor.stored ? "without copy: tma any strides are written"
                                                     : "copy: cp_async reads any strides"};
  const char* copies = tensor.stored ? "writes" : "reads";
  if (tensor.address % kAlignment != 0)
    throw UserError(fmt::format("{} begins at {:#x}, tma {} {} multiples of {} bytes", tensor.name, tensor.address,
                                copies, tensor.stored ? "to" : "from", kAlignment),
                    notes);
  if (tensor.strides[0] != 1)
    throw UserError(fmt::format("the elements of a row of {} are {} apart, tma {} neighbours", tensor.name,
                                tensor.strides[0], copies),
                    notes);
  for (std::size_t dim = 1; dim < tensor.strides.size(); ++dim)
    if (tensor.extents[dim] > 1 && (tensor.strides[dim] * kBytes % kAlignment != 0 || tensor.strides[dim] < 0))
      throw UserError(fmt::format("{} has a stride of {} elements = {} bytes, tma {} strides of multiples of {} bytes",
                                  tensor.name, tensor.strides[dim], tensor.strides[dim] * kBytes, copies, kAlignment),
                      notes);
}

}  // namespace

TensorMap encode_tensor_map(const TiledTensor& tensor) {
  check_copied(tensor);
  const DriverApi& api = driver().api();
  if (api.tensor_map_encode_tiled == nullptr)
    throw MachineError("the CUDA driver has no tensor maps, which came with 12.0", {"copy: cp_async needs none"});
  std::vector<std::uint64_t> strides;  // in bytes
  for (std::size_t dim = 1; dim < tensor.strides.size(); ++dim) {
    // Of one element any multiple will do; none may be 0.
    const std::int64_t bytes = tensor.extents[dim] > 1 ? tensor.strides[dim] * kBytes : kAlignment;
    strides.push_back(static_cast<std::uint64_t>(bytes));
  }
  const std::vector<std::uint32_t> steps(tensor.extents.size(), 1);
  TensorMap map;
  driver().check(
      api.tensor_map_encode_tiled(map.bytes.data(), tensor.bfloat ? kBfloat16 : kFloat16,
                                  static_cast<std::uint32_t>(tensor.extents.size()),
                                  reinterpret_cast<void*>(tensor.address), tensor.extents.data(), strides.data(),
                                  tensor.box.data(), steps.data(), kNoInterleave, kSwizzle128, kPromoteL2To256, kZeros),
      "describe ", tensor.name, " for TMA");
  return map;
}

}  // namespace astatide::runtime
