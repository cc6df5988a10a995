#include "api/c_dlpack.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "api/c_calls.h"
#include "compiler/algorithm/source_text.h"
#include "runtime/host_tensor.h"

namespace astatide {
namespace {

struct TypePair {
  ScalarType type;
  std::uint8_t code, bits;
};
constexpr std::array<TypePair, 8> kTypes{{{ScalarType::f32, kDLFloat, 32},
                                          {ScalarType::f16, kDLFloat, 16},
                                          {ScalarType::bf16, kDLBfloat, 16},
                                          {ScalarType::f64, kDLFloat, 64},
                                          {ScalarType::i32, kDLInt, 32},
                                          {ScalarType::i64, kDLInt, 64},
                                          {ScalarType::u8, kDLUInt, 8},
                                          {ScalarType::boolean, kDLBool, 8}}};

std::string describe(const DLDataType& dtype) {
  return fmt::format("of DLPack's type code {} with {} bits and {} lanes", dtype.code, dtype.bits, dtype.lanes);
}

std::string describe(const DLDevice& device) {
  static constexpr std::array kNames = {"CPU",         "CUDA",   "CUDAHost", "OpenCL",  "",         "",
                                        "Vulkan",      "Metal",  "VPI",      "ROCM",    "ROCMHost", "ExtDev",
                                        "CUDAManaged", "OneAPI", "WebGPU",   "Hexagon", "MAIA"};
  const auto type = static_cast<std::int32_t>(device.device_type);
  const bool known = type >= 1 && type <= static_cast<std::int32_t>(kNames.size()) && *kNames[type - 1] != '\0';
  return fmt::format("{}:{}", known ? fmt::format("kDL{}", kNames[type - 1]) : fmt::format("device type {}", type),
                     device.device_id);
}

bool is_on(const DLDevice& own, const Device& device) {
  if (device.kind == Device::Kind::cuda) return own.device_type == kDLCUDA && own.device_id == device.ordinal;
  return own.device_type == kDLCPU || own.device_type == kDLCUDAHost;
}

/// The tensor that an argument holds; null, and an error, where it holds none.
const DLTensor* tensor_of(const AstatideTensor& argument, const std::string& name, Diagnostics& errors) {
  if ((argument.tensor == nullptr) == (argument.managed == nullptr)) {
    errors.error({},
                 fmt::format("{} has {}", name,
                             argument.tensor == nullptr ? "neither tensor nor managed" : "both tensor and managed"),
                 {"one of the two is given, the other is NULL"});
    return nullptr;
  }
  if (argument.tensor != nullptr) return argument.tensor;
  const DLPackVersion& version = argument.managed->version;
  if (version.major == DLPACK_MAJOR_VERSION) return &argument.managed->dl_tensor;
  // Nothing behind the version is where it was.
  errors.error({}, fmt::format("{} is a tensor of DLPack {}.{}, this library reads version {}", name, version.major,
                               version.minor, DLPACK_MAJOR_VERSION));
  return nullptr;
}

void check_place(const DLTensor& tensor, const std::string& name, const Device& device, Diagnostics& errors) {
  if (!is_on(tensor.device, device)) {
    const bool cuda = device.kind == Device::Kind::cuda;
    errors.error({},
                 fmt::format("{} lies on {}, the executable was built for {}", name, describe(tensor.device),
                             cuda ? fmt::format("kDLCUDA:{}", device.ordinal) : "the CPU"),
                 {cuda ? "a copy on that device" : "kDLCPU and kDLCUDAHost are memory of the CPU"});
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (tensor.byte_offset > UINTPTR_MAX - address)
    errors.error(
        {}, fmt::format("{} begins {} bytes behind {}, which no address is", name, tensor.byte_offset, tensor.data));
}

/// Whether shape and strides can be read.
bool check_rank(const DLTensor& tensor, const std::string& name, Diagnostics& errors) {
  if (tensor.ndim < 0 || tensor.ndim > ASTATIDE_MOST_DIMENSIONS) {
    errors.error(
        {}, fmt::format("{} has {} dimensions, a tensor has 0 to {}", name, tensor.ndim, ASTATIDE_MOST_DIMENSIONS));
    return false;
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    errors.error({}, fmt::format("{} has {} dimensions, and its shape is NULL", name, tensor.ndim));
    return false;
  }
  return true;
}

/// Values by name, from any array of pairs.
template <class Value, class Pair>
std::map<std::string, Value> named(std::span<const Pair> pairs, const char* what) {
  std::map<std::string, Value> out;
  Diagnostics errors;
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    if (pairs[n].name == nullptr) {
      errors.error({}, fmt::format("{}[{}] has no name", what, n));
    } else if (!out.emplace(pairs[n].name, pairs[n].value).second) {
      errors.error({}, fmt::format("{} has {} twice", what, quoted(pairs[n].name)));
    }
  }
  errors.throw_if_any();
  return out;
}

}  // namespace

Device device_of(const DLDevice& device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return Device::cpu();
    case kDLCUDA:
      return Device::cuda(device.device_id);
    default:
      throw UserError(fmt::format("nothing is built for {}", describe(device)),
                      {"kDLCPU, or kDLCUDA with the number of a device"});
  }
}

ScalarType dtype_of(const DLDataType& dtype, const std::string& of) {
  for (const TypePair& pair : kTypes)
    if (pair.code == dtype.code && pair.bits == dtype.bits && dtype.lanes == 1) return pair.type;
  throw UserError(fmt::format("{} are {}, which no tensor is", of, describe(dtype)),
                  {"floats of 16, 32 and 64 bits, bfloat16, int32, int64, uint8 and bool, with 1 lane"});
}

DLDataType dl_type_of(ScalarType type) {
  for (const TypePair& pair : kTypes)
    if (pair.type == type) return {pair.code, pair.bits, 1};
  throw InternalError("a type that DLPack has not");
}

std::map<std::string, std::int64_t> sizes_of(const AstatideSize* sizes, std::size_t count, const char* what) {
  return named<std::int64_t>(elements(sizes, count, what), what);
}

std::map<std::string, double> scalars_of(const AstatideScalar* scalars, std::size_t count) {
  return named<double>(elements(scalars, count, "scalars"), "scalars");
}

std::map<std::string, TensorView> views_of(std::span<const AstatideTensor> tensors, const Device& device,
                                           const std::function<const char*(const std::string&)>& written,
                                           Diagnostics& errors) {
  std::map<std::string, TensorView> views;
  for (std::size_t n = 0; n < tensors.size(); ++n) {
    const AstatideTensor& argument = tensors[n];
    if (argument.name == nullptr) {
      errors.error({}, fmt::format("tensors[{}] has no name", n));
      continue;
    }
    const std::string name = argument.name, shown = quoted(name);
    const auto [entry, added] = views.try_emplace(name);
    if (!added) errors.error({}, fmt::format("tensors has {} twice", shown));
    const DLTensor* tensor = tensor_of(argument, shown, errors);
    if (tensor == nullptr) continue;
    if (argument.managed != nullptr && (argument.managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0)
      if (const char* how = written(name))
        errors.error({}, fmt::format("{} is {}, and its memory is read-only", shown, how));
    check_place(*tensor, shown, device, errors);
    TensorView& view = entry->second;
    try {
      view.dtype = dtype_of(tensor->dtype, "elements of " + shown);
    } catch (const UserError& error) {
      const Diagnostic& problem = error.diagnostics().front();
      errors.error(problem.where, problem.message, problem.notes);
    }
    if (!check_rank(*tensor, shown, errors)) continue;
    view.shape.assign(tensor->shape, tensor->shape + tensor->ndim);
    if (tensor->strides != nullptr)
      view.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
    else
      view.strides = runtime::dense_strides(view.shape);
    // An offset from nowhere stays nowhere, which is refused where the tensor has elements.
    if (tensor->data != nullptr)
      view.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(tensor->data) + tensor->byte_offset);
  }
  return views;
}

}  // namespace astatide
