// Devices and contexts. There are ASTATIDE_FAKE_DEVICES (1), with the compute capabilities ASTATIDE_FAKE_CAPABILITY,
// such as 90,80 (9.0; the last holds for all behind it), named fake, fake 1, and so on. A thread has no context until
// it makes one current, with ASTATIDE_FAKE_NO_CONTEXT never.
#include <cstdio>
#include <cstdlib>

#include "tests/support/fake_cuda/world.h"

using namespace fake;
using namespace astatide::runtime;

namespace {

constexpr std::size_t kMemoryBytes = std::size_t{1} << 37;

bool is_device(const Call& call, int device) {
  return device >= 0 && device < static_cast<int>(call.world.capabilities.size());
}

DriverResult no_device(const Call& call, int device) {
  return call.fault(DriverResult::invalid_device, "device " + std::to_string(device));
}

}  // namespace

extern "C" {

DriverResult cuDriverGetVersion(int* version) { return *version = 13000, DriverResult::success; }
DriverResult cuDeviceGetCount(int* count) {
  const Call call("cuDeviceGetCount");
  return *count = static_cast<int>(call.world.capabilities.size()), DriverResult::success;
}
DriverResult cuDeviceGet(int* device, int ordinal) {
  const Call call("cuDeviceGet");
  if (!is_device(call, ordinal)) return no_device(call, ordinal);
  return *device = ordinal, DriverResult::success;
}
DriverResult cuDeviceGetName(char* name, int length, int device) {
  const std::string own = device == 0 ? "fake" : "fake " + std::to_string(device);
  return std::snprintf(name, static_cast<std::size_t>(length), "%s", own.c_str()), DriverResult::success;
}
DriverResult cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = kMemoryBytes, DriverResult::success; }
DriverResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, int device) {
  const Call call("cuDeviceGetAttribute");
  if (!is_device(call, device)) return no_device(call, device);
  const int capability = call.world.capabilities[static_cast<std::size_t>(device)];
  switch (attribute) {
    case DeviceAttribute::compute_capability_major:
      *value = capability / 10;
      break;
    case DeviceAttribute::compute_capability_minor:
      *value = capability % 10;
      break;
    case DeviceAttribute::multiprocessor_count:
      *value = 7;
      break;
    case DeviceAttribute::max_threads_per_block:
      *value = 1024;
      break;
    case DeviceAttribute::max_shared_memory_per_block_optin:
      *value = capability == 80 ? 163 * 1024 : 227 * 1024;
      break;
    default:
      *value = 65536;
  }
  return DriverResult::success;
}
DriverResult cuGetErrorName(DriverResult, const char** name) { return *name = "FAKE", DriverResult::success; }
DriverResult cuGetErrorString(DriverResult, const char** text) { return *text = "fake", DriverResult::success; }

DriverResult cuDevicePrimaryCtxRetain(ContextHandle* context, int device) {
  const Call call("cuDevicePrimaryCtxRetain");
  if (!is_device(call, device)) return no_device(call, device);
  Context* own = call.world.primary(device);
  if (own == nullptr) own = &call.world.make_context(device, World::Makes::primary);
  ++own->retained;
  return give(context, own->handle), DriverResult::success;
}
/// The last release takes with it what was made there.
DriverResult cuDevicePrimaryCtxRelease_v2(int device) {
  const Call call("cuDevicePrimaryCtxRelease");
  Context* const own = call.world.primary(device);
  if (own == nullptr)
    return call.fault(DriverResult::invalid_context,
                      "the primary context of device " + std::to_string(device) + " is not retained");
  if (--own->retained == 0) call.world.destroy_context(*own);
  return DriverResult::success;
}
/// Current on this thread, as the driver leaves it.
DriverResult cuCtxCreate_v2(ContextHandle* context, unsigned, int device) {
  const Call call("cuCtxCreate");
  if (!is_device(call, device)) return no_device(call, device);
  const Handle own = call.world.make_context(device, World::Makes::own).handle;
  if (!push(own)) return call.fault(DriverResult::invalid_value, "more contexts than a thread's stack holds");
  return give(context, own), DriverResult::success;
}
DriverResult cuCtxDestroy_v2(ContextHandle context) {
  const Call call("cuCtxDestroy");
  const auto found = call.world.contexts.find(number_of(context));
  if (found == call.world.contexts.end() || found->second.retained > 0)
    return call.fault(DriverResult::invalid_context, "no context that was created");
  if (!stack().empty() && stack().back() == found->first) pop();
  call.world.destroy_context(found->second);
  return DriverResult::success;
}

DriverResult cuCtxGetCurrent(ContextHandle* context) {
  return give(context, stack().empty() ? 0 : stack().back()), DriverResult::success;
}
DriverResult cuCtxPushCurrent_v2(ContextHandle context) {
  if (std::getenv("ASTATIDE_FAKE_NO_CONTEXT") != nullptr) return DriverResult::success;
  const Call call("cuCtxPushCurrent");
  if (!call.world.contexts.contains(number_of(context)))
    return call.fault(DriverResult::invalid_context, "no such context");
  if (!push(number_of(context)))
    return call.fault(DriverResult::invalid_value, "more contexts than a thread's stack holds");
  return DriverResult::success;
}
DriverResult cuCtxPopCurrent_v2(ContextHandle* context) {
  const Call call("cuCtxPopCurrent");
  if (stack().empty()) return call.fault(DriverResult::invalid_context, "no context is current");
  return give(context, pop()), DriverResult::success;
}
DriverResult cuCtxGetDevice(int* device) {
  const Call call("cuCtxGetDevice");
  DriverResult result = DriverResult::success;
  if (const Context* const own = call.current(result)) *device = own->device;
  return result;
}
DriverResult cuCtxSynchronize() {
  const Call call("cuCtxSynchronize");
  DriverResult result = DriverResult::success;
  call.current(result);
  return result;
}
DriverResult cuCtxGetId(ContextHandle context, unsigned long long* id) {
  const Call call("cuCtxGetId");
  const auto found = call.world.contexts.find(number_of(context));
  // No fault: who asks wants to know.
  if (found == call.world.contexts.end()) return DriverResult::invalid_context;
  return *id = found->second.id, DriverResult::success;
}

DriverResult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const Call call("cuMemGetInfo");
  DriverResult result = DriverResult::success;
  if (const Context* const own = call.current(result))
    *total = kMemoryBytes, *free = kMemoryBytes - call.world.bytes_of_device(own->device);
  return result;
}

DriverResult cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  const Call call("cuMemAlloc");
  DriverResult result = DriverResult::success;
  const Context* const own = call.current(result);
  if (own == nullptr) return result;
  if (bytes == 0) return call.fault(DriverResult::invalid_value, "0 bytes");
  if (bytes > kMemoryBytes - call.world.bytes_of_device(own->device)) return DriverResult::out_of_memory;
  return *pointer = call.world.allocate(bytes, own->id), DriverResult::success;
}
DriverResult cuMemFree_v2(DevicePointer pointer) {
  const Call call("cuMemFree");
  DriverResult result = DriverResult::success;
  if (!call.takes_memory(pointer, 1, result)) return result;
  if (!call.world.memory.contains(pointer))
    return call.fault(DriverResult::invalid_value, std::to_string(pointer) + " is not where memory begins");
  return call.world.free(pointer), DriverResult::success;
}
DriverResult cuPointerGetAttribute(void* value, PointerAttribute attribute, DevicePointer pointer) {
  const Call call("cuPointerGetAttribute");
  if (call.world.trusts) return *static_cast<int*>(value) = 0, DriverResult::success;
  const auto* const found = call.world.memory_at(pointer);
  if (found == nullptr || attribute != PointerAttribute::device_ordinal) return DriverResult::invalid_value;
  *static_cast<int*>(value) = call.world.context_of(found->second.context)->device;
  return DriverResult::success;
}

/// How many of these a device has: retains of its primary context, contexts, memory, or objects.
long long fake_cuda_count(int device, const char* what) {
  const Call call("fake_cuda_count");
  const std::string wanted = what;
  long long count = 0;
  for (const auto& [handle, context] : call.world.contexts)
    if (context.device == device) count += wanted == "retains" ? context.retained : wanted == "contexts" ? 1 : 0;
  for (const auto& [address, own] : call.world.memory)
    if (wanted == "memory" && call.world.context_of(own.context)->device == device) ++count;
  for (const auto& [handle, own] : call.world.objects)
    if (wanted == "objects" && call.world.context_of(own.context)->device == device) ++count;
  return count;
}
}
