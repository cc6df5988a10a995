#include "runtime/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "runtime/driver.h"
#include "runtime/stub/astatide_launch_rules.h"

namespace astatide::runtime {
namespace {

astatide_tiled_tensor tiled(const TiledTensor& tensor) {
  if (tensor.extents.size() > ASTATIDE_MAP_MOST_DIMENSIONS)
    throw UserError(fmt::format("{} has {} dimensions, tma copies tensors of at most {}", tensor.name,
                                tensor.extents.size(), ASTATIDE_MAP_MOST_DIMENSIONS),
                    {"copy: cp_async takes any number"});
  astatide_tiled_tensor out{};
  out.address = tensor.address;
  out.bfloat = tensor.bfloat ? 1 : 0;
  out.rank = static_cast<int>(tensor.extents.size());
  std::copy(tensor.extents.begin(), tensor.extents.end(), out.extents);
  std::copy(tensor.strides.begin(), tensor.strides.end(), out.strides);
  std::copy(tensor.box.begin(), tensor.box.end(), out.box);
  return out;
}

[[noreturn]] void refuse(const TiledTensor& tensor, astatide_map_rule rule, int dimension) {
  const std::vector<std::string> notes{tensor.stored ? "without copy: tma any strides are written"
                                                     : "copy: cp_async reads any strides"};
  const char* copies = tensor.stored ? "writes" : "reads";
  if (rule == ASTATIDE_MAP_BASE)
    throw UserError(fmt::format("{} begins at {:#x}, tma {} {} multiples of 16 bytes", tensor.name, tensor.address,
                                copies, tensor.stored ? "to" : "from"),
                    notes);
  if (rule == ASTATIDE_MAP_INNERMOST)
    throw UserError(fmt::format("the elements of a row of {} are {} apart, tma {} neighbours", tensor.name,
                                tensor.strides[0], copies),
                    notes);
  const std::int64_t stride = tensor.strides[static_cast<std::size_t>(dimension)];
  throw UserError(fmt::format("{} has a stride of {} elements = {} bytes, tma {} strides of multiples of 16 bytes",
                              tensor.name, stride, stride * 2, copies),
                  notes);
}

}  // namespace

TensorMap encode_tensor_map(const TiledTensor& tensor) {
  const astatide_tiled_tensor described = tiled(tensor);
  astatide_map_encoding encoding{};
  int dimension = 0;
  if (const astatide_map_rule rule = astatide_encode_map(&described, &encoding, &dimension); rule != ASTATIDE_MAP_GOOD)
    refuse(tensor, rule, dimension);
  const DriverApi& api = driver().api();
  if (api.tensor_map_encode_tiled == nullptr)
    throw MachineError("the CUDA driver has no tensor maps, which came with 12.0", {"copy: cp_async needs none"});
  TensorMap map;
  driver().check(api.tensor_map_encode_tiled(
                     map.bytes.data(), encoding.type, static_cast<std::uint32_t>(described.rank),
                     reinterpret_cast<void*>(described.address), described.extents, encoding.strides, described.box,
                     encoding.steps, encoding.interleave, encoding.swizzle, encoding.promotion, encoding.fill),
                 "describe ", tensor.name, " for TMA");
  return map;
}

}  // namespace astatide::runtime
