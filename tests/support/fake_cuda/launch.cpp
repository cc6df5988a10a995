// Modules, functions and launches:
//
//   launch KERNEL device=N stream=N grid=X block=X shared=BYTES parameters=HEX,HEX,…
//       a stream by its number in its context, 0 for the default one; each parameter as long as
//       ASTATIDE_FAKE_PARAMETERS says: KERNEL=8,8,128;KERNEL=…
//   load device=N, unload device=N
//   allow KERNEL attribute=N value=N
//   map type=T rank=N address=A extents=… strides=… box=… steps=… modes=…
//
// A multiprocessor holds two blocks.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_cuda/world.h"

using namespace fake;
using namespace astatide::runtime;

namespace {

template <class T>
std::string list(const T* values, unsigned count) {
  std::string out;
  for (unsigned n = 0; n < count; ++n) out += (n == 0 ? "" : ",") + std::to_string(values[n]);
  return out;
}

std::string hex(const void* bytes, int count) {
  std::string out;
  for (int n = 0; n < count; ++n) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<const unsigned char*>(bytes)[n]);
    out += text;
  }
  return out;
}

DriverResult load(const Call& call, ModuleHandle* module, const void* image) {
  DriverResult result = DriverResult::success;
  const Context* const context = call.current(result);
  if (context == nullptr) return result;
  std::optional<Cubin> code = read_cubin(image);
  const int own = call.world.capabilities[static_cast<std::size_t>(context->device)];
  if (!code || code->capability / 10 != own / 10 || code->capability > own)
    return call.fault(DriverResult::no_binary_for_gpu, code ? "code for " + std::to_string(code->capability) +
                                                                  " on device " + std::to_string(context->device)
                                                            : "no machine code");
  record("load device=" + std::to_string(context->device));
  Object object;
  object.kind = Kind::module;
  object.context = context->id;
  object.code = *std::move(code);
  return give(module, call.world.add(std::move(object))), result;
}

/// What a kernel is given that lies in device memory belongs to the context that it runs in: words that are an address
/// of some memory, and what maps describe.
bool reads_own_memory(const Call& call, const Object& function, void** parameters, DriverResult& result) {
  for (std::size_t n = 0; n < function.kernel->parameters.size(); ++n) {
    const std::size_t bytes = function.kernel->parameters[n];
    DevicePointer address = 0;
    if (bytes == sizeof(MapBytes)) {
      MapBytes map;
      std::memcpy(&map, parameters[n], sizeof map);
      if (map.magic != MapBytes::kMagic) {
        result = call.fault(kIllegalAddress, "parameter " + std::to_string(n) + " is no tensor map");
        return false;
      }
      address = map.address;
    } else if (bytes == sizeof address) {
      std::memcpy(&address, parameters[n], sizeof address);
    }
    const auto* const found = call.world.memory_at(address);
    const bool lost = bytes == sizeof(MapBytes) && found == nullptr;
    if (!lost && (found == nullptr || found->second.context == function.context)) continue;
    result = call.fault(kIllegalAddress, "parameter " + std::to_string(n) + " of " + function.kernel->name +
                                             (lost ? " describes what is no memory"
                                                   : " lies in memory of " + call.name_of(found->second.context) +
                                                         ", the kernel runs in " + call.name_of(function.context)));
    return false;
  }
  return true;
}

std::string shown_parameters(const std::string& name, void** parameters) {
  const char* const all = std::getenv("ASTATIDE_FAKE_PARAMETERS");
  const std::string sizes = all == nullptr ? "" : ";" + std::string(all);
  std::string out;
  std::size_t at = sizes.find(";" + name + "=");
  if (at == std::string::npos) return out;
  at += name.size() + 2;
  for (int n = 0; at < sizes.size() && sizes[at - 1] != ';'; ++n) {
    char* end = nullptr;
    const long bytes = std::strtol(sizes.c_str() + at, &end, 10);
    // Of a map what it describes: what stands for an empty tensor lies anywhere.
    const auto* const own = static_cast<const unsigned char*>(parameters[n]);
    const long hidden = bytes == sizeof(MapBytes) ? static_cast<long>(offsetof(MapBytes, hash)) : 0;
    out += (n == 0 ? "" : ",") + hex(own + hidden, static_cast<int>(bytes - hidden));
    at = static_cast<std::size_t>(end - sizes.c_str()) + 1;
  }
  return out;
}

/// " dependent" where the launch may start before those in front have ended.
std::string attributes_of(const LaunchConfig& config) {
  std::string out;
  for (unsigned n = 0; n < config.attribute_count; ++n)
    out += config.attributes[n].id == kProgrammaticStreamSerialization && config.attributes[n].value[0] == 1
               ? " dependent"
               : " attribute=" + std::to_string(config.attributes[n].id);
  return out;
}

DriverResult launch_as(const char* name_of_call, const LaunchConfig& config, FunctionHandle function,
                       void** parameters) {
  const Call call(name_of_call);
  DriverResult result = DriverResult::success;
  if (call.world.trusts) return result;
  const Object* const own = call.own(Kind::function, number_of(function), result);
  if (own == nullptr || !call.takes_stream(number_of(config.stream), result)) return result;
  if (!reads_own_memory(call, *own, parameters, result)) return result;
  Object* const order = config.stream == nullptr ? nullptr : call.world.find(Kind::stream, number_of(config.stream));
  if (order != nullptr && order->launches >= 0) ++order->launches;
  if (log_path() == nullptr) return result;
  const std::string& name = own->kernel->name;
  record("launch " + name + " device=" + std::to_string(call.world.context_of(own->context)->device) +
         " stream=" + std::to_string(order == nullptr ? 0 : order->number) + " grid=" + std::to_string(config.grid_x) +
         "," + std::to_string(config.grid_y) + "," + std::to_string(config.grid_z) +
         " block=" + std::to_string(config.block_x) + " shared=" + std::to_string(config.shared_bytes) +
         attributes_of(config) + " parameters=" + shown_parameters(name, parameters));
  return result;
}
}  // namespace

extern "C" {

DriverResult cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned, JitOption*, void**) {
  return load(Call("cuModuleLoadDataEx"), module, image);
}
DriverResult cuModuleLoadData(ModuleHandle* module, const void* image) {
  return load(Call("cuModuleLoadData"), module, image);
}
/// With its functions.
DriverResult cuModuleUnload(ModuleHandle module) {
  const Call call("cuModuleUnload");
  DriverResult result = DriverResult::success;
  const Object* const own = call.own(Kind::module, number_of(module), result);
  if (own == nullptr) return result;
  record("unload device=" + std::to_string(call.world.context_of(own->context)->device));
  for (auto object = call.world.objects.begin(); object != call.world.objects.end();) {
    const auto next = std::next(object);
    if (object->second.kind == Kind::function && object->second.module == number_of(module))
      call.world.remove(object->first);
    object = next;
  }
  return call.world.remove(number_of(module)), result;
}
DriverResult cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  const Call call("cuModuleGetFunction");
  DriverResult result = DriverResult::success;
  const Object* const own = call.own(Kind::module, number_of(module), result);
  if (own == nullptr) return result;
  for (const Cubin::Kernel& kernel : own->code.kernels) {
    if (kernel.name != name) continue;
    Object object;
    object.kind = Kind::function;
    object.context = own->context;
    object.module = number_of(module);
    object.kernel = &kernel;
    return give(function, call.world.add(std::move(object))), result;
  }
  return call.fault(DriverResult::not_found, std::string("no kernel ") + name);
}
DriverResult cuFuncGetAttribute(int* value, FunctionAttribute attribute, FunctionHandle function) {
  const Call call("cuFuncGetAttribute");
  DriverResult result = DriverResult::success;
  if (call.own(Kind::function, number_of(function), result) != nullptr)
    *value = attribute == FunctionAttribute::max_threads_per_block ? 1024 : 0;
  return result;
}
DriverResult cuFuncSetAttribute(FunctionHandle function, FunctionAttribute attribute, int value) {
  const Call call("cuFuncSetAttribute");
  DriverResult result = DriverResult::success;
  if (const Object* const own = call.own(Kind::function, number_of(function), result))
    record("allow " + own->kernel->name + " attribute=" + std::to_string(static_cast<int>(attribute)) +
           " value=" + std::to_string(value));
  return result;
}
DriverResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle function, int, std::size_t) {
  const Call call("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  DriverResult result = DriverResult::success;
  if (call.own(Kind::function, number_of(function), result) != nullptr) *blocks = 2;
  return result;
}

/// The map's bytes are its address and a hash of what it describes.
DriverResult cuTensorMapEncodeTiled(void* map, int type, std::uint32_t rank, void* address,
                                    const std::uint64_t* extents, const std::uint64_t* strides,
                                    const std::uint32_t* box, const std::uint32_t* steps, int interleave, int swizzle,
                                    int promotion, int fill) {
  const Call call("cuTensorMapEncodeTiled");
  DriverResult result = DriverResult::success;
  if (!call.takes_memory(number_of(address), 0, result)) return result;
  const std::string form = "extents=" + list(extents, rank) + " strides=" + list(strides, rank - 1) +
                           " box=" + list(box, rank) + " steps=" + list(steps, rank) +
                           " modes=" + std::to_string(interleave) + "," + std::to_string(swizzle) + "," +
                           std::to_string(promotion) + "," + std::to_string(fill);
  bool one = true;
  for (unsigned n = 0; n < rank; ++n) one = one && extents[n] == 1;
  // What stands for an empty tensor lies anywhere.
  const std::string where = one ? "zero" : std::to_string(number_of(address));
  const std::string text =
      "map type=" + std::to_string(type) + " rank=" + std::to_string(rank) + " address=" + where + " " + form;
  record(text);
  MapBytes own;
  own.address = number_of(address);
  for (std::size_t n = 0; n < own.hash.size(); ++n) own.hash[n] = std::hash<std::string>{}(text + std::to_string(n));
  std::memcpy(map, &own, sizeof own);
  return result;
}

DriverResult cuLaunchKernel(FunctionHandle function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                            unsigned, unsigned shared, StreamHandle stream, void** parameters, void**) {
  const LaunchConfig config{x, y, z, threads, 1, 1, shared, stream, nullptr, 0};
  return launch_as("cuLaunchKernel", config, function, parameters);
}

DriverResult cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  return launch_as("cuLaunchKernelEx", *config, function, parameters);
}
}
