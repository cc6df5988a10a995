// Records what is launched, a line each, in the file ASTATIDE_FAKE_LOG:
//
//   launch KERNEL grid=X block=X shared=BYTES parameters=HEX,HEX,…    each as long as ASTATIDE_FAKE_PARAMETERS says:
//                                                                      KERNEL=8,8,128;KERNEL=…
//   map type=T rank=N address=A extents=… strides=… box=… steps=… modes=…
//   clear address=A bytes=N
//   graph of N launches, and of each of its launches: graph     what is captured is recorded when it is, not again
//
// With ASTATIDE_FAKE_BARE_THREADS a thread has no context until it makes one current, with ASTATIDE_FAKE_NO_CONTEXT
// never; what needs one says so.
//
// The device has the compute capability ASTATIDE_FAKE_CAPABILITY (90 for 9.0), and holds two blocks a multiprocessor.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>

#include "runtime/driver_api.h"

using namespace astatide::runtime;

namespace {

int capability() {
  const char* text = std::getenv("ASTATIDE_FAKE_CAPABILITY");
  return text == nullptr ? 90 : std::atoi(text);
}

/// Without a log nothing is put together either: launches that are timed or counted do nothing else then.
const char* log_path() { return std::getenv("ASTATIDE_FAKE_LOG"); }

void record(const std::string& line) {
  const char* path = log_path();
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
  }
}

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

template <class T>
T* handle(std::uintptr_t value) {
  return reinterpret_cast<T*>(value);
}

thread_local int pushed = 0;
thread_local int captured = -1;  // launches of the capture that is under way; -1: none is

bool has_context() {
  if (std::getenv("ASTATIDE_FAKE_NO_CONTEXT") != nullptr) return false;
  return pushed > 0 || std::getenv("ASTATIDE_FAKE_BARE_THREADS") == nullptr;
}

}  // namespace

extern "C" {

DriverResult cuDriverGetVersion(int* version) { return *version = 13000, DriverResult::success; }
DriverResult cuDeviceGetCount(int* count) { return *count = 1, DriverResult::success; }
DriverResult cuDeviceGet(int* device, int) { return *device = 0, DriverResult::success; }
DriverResult cuDeviceGetName(char* name, int length, int) {
  return std::snprintf(name, static_cast<std::size_t>(length), "fake"), DriverResult::success;
}
DriverResult cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  return *bytes = std::size_t{1} << 37, DriverResult::success;
}
DriverResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, int) {
  switch (attribute) {
    case DeviceAttribute::compute_capability_major:
      *value = capability() / 10;
      break;
    case DeviceAttribute::compute_capability_minor:
      *value = capability() % 10;
      break;
    case DeviceAttribute::multiprocessor_count:
      *value = 7;
      break;
    case DeviceAttribute::max_threads_per_block:
      *value = 1024;
      break;
    case DeviceAttribute::max_shared_memory_per_block_optin:
      *value = capability() == 80 ? 163 * 1024 : 227 * 1024;
      break;
    default:
      *value = 65536;
  }
  return DriverResult::success;
}

DriverResult cuDevicePrimaryCtxRetain(ContextHandle* context, int) {
  return *context = handle<CUctx_st>(0x100), DriverResult::success;
}
DriverResult cuCtxGetCurrent(ContextHandle* context) {
  return *context = has_context() ? handle<CUctx_st>(0x100) : nullptr, DriverResult::success;
}
DriverResult cuCtxPushCurrent_v2(ContextHandle) { return ++pushed, DriverResult::success; }
DriverResult cuCtxPopCurrent_v2(ContextHandle* context) {
  return --pushed, *context = handle<CUctx_st>(0x100), DriverResult::success;
}
DriverResult cuCtxGetDevice(int* device) { return *device = 0, DriverResult::success; }
DriverResult cuCtxGetId(ContextHandle, unsigned long long* id) { return *id = 1, DriverResult::success; }

/// One after the other, 16 MiB apart and more.
DriverResult cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  if (!has_context()) return DriverResult::invalid_context;
  static DevicePointer next = 0x7f0000000000;
  constexpr DevicePointer kStep = DevicePointer{1} << 24;
  *pointer = next;
  next += (bytes + kStep - 1) / kStep * kStep + kStep;
  return DriverResult::success;
}
DriverResult cuPointerGetAttribute(void* value, PointerAttribute, DevicePointer pointer) {
  if (pointer < 0x7f0000000000) return DriverResult::invalid_value;
  const int device = 0;
  std::memcpy(value, &device, sizeof device);
  return DriverResult::success;
}
DriverResult cuMemsetD8Async(DevicePointer pointer, unsigned char, std::size_t bytes, StreamHandle) {
  record("clear address=" + std::to_string(pointer) + " bytes=" + std::to_string(bytes));
  return DriverResult::success;
}

DriverResult cuStreamCreate(StreamHandle* stream, unsigned) {
  return *stream = handle<CUstream_st>(0x300), DriverResult::success;
}
DriverResult cuStreamBeginCapture_v2(StreamHandle, int) { return captured = 0, DriverResult::success; }
DriverResult cuStreamIsCapturing(StreamHandle, int* status) {
  return *status = captured < 0 ? kCaptureStatusNone : 1, DriverResult::success;
}
DriverResult cuStreamEndCapture(StreamHandle, GraphHandle* graph) {
  record("graph of " + std::to_string(captured) + " launches");
  return *graph = handle<CUgraph_st>(0x500), captured = -1, DriverResult::success;
}
DriverResult cuGraphInstantiateWithFlags(ExecutableGraphHandle* graph, GraphHandle, unsigned long long) {
  return *graph = handle<CUgraphExec_st>(0x600), DriverResult::success;
}
DriverResult cuGraphLaunch(ExecutableGraphHandle, StreamHandle) { return record("graph"), DriverResult::success; }
DriverResult cuEventCreate(EventHandle* event, unsigned) {
  return *event = handle<CUevent_st>(0x400), DriverResult::success;
}

static DriverResult load(ModuleHandle* module, const void* image) {
  // Machine code is an ELF file.
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return DriverResult::no_binary_for_gpu;
  return *module = handle<CUmod_st>(0x200), DriverResult::success;
}
DriverResult cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned, JitOption*, void**) {
  return load(module, image);
}
DriverResult cuModuleLoadData(ModuleHandle* module, const void* image) { return load(module, image); }
DriverResult cuModuleGetFunction(FunctionHandle* function, ModuleHandle, const char* name) {
  static std::list<std::string> names;  // a handle lives as long as the process
  *function = reinterpret_cast<FunctionHandle>(names.emplace_back(name).data());
  return DriverResult::success;
}
DriverResult cuFuncGetAttribute(int* value, FunctionAttribute attribute, FunctionHandle) {
  *value = attribute == FunctionAttribute::max_threads_per_block ? 1024 : 0;
  return DriverResult::success;
}
DriverResult cuFuncSetAttribute(FunctionHandle function, FunctionAttribute attribute, int value) {
  record("allow " + std::string(reinterpret_cast<const char*>(function)) +
         " attribute=" + std::to_string(static_cast<int>(attribute)) + " value=" + std::to_string(value));
  return DriverResult::success;
}
DriverResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle, int, std::size_t) {
  return *blocks = 2, DriverResult::success;
}
DriverResult cuGetErrorName(DriverResult, const char** name) { return *name = "FAKE", DriverResult::success; }
DriverResult cuGetErrorString(DriverResult, const char** text) { return *text = "fake", DriverResult::success; }

/// The map's bytes are a hash of what it describes.
DriverResult cuTensorMapEncodeTiled(void* map, int type, std::uint32_t rank, void* address,
                                    const std::uint64_t* extents, const std::uint64_t* strides,
                                    const std::uint32_t* box, const std::uint32_t* steps, int interleave, int swizzle,
                                    int promotion, int fill) {
  if (!has_context()) return DriverResult::invalid_context;
  const std::string form = "extents=" + list(extents, rank) + " strides=" + list(strides, rank - 1) +
                           " box=" + list(box, rank) + " steps=" + list(steps, rank) +
                           " modes=" + std::to_string(interleave) + "," + std::to_string(swizzle) + "," +
                           std::to_string(promotion) + "," + std::to_string(fill);
  bool one = true;
  for (unsigned n = 0; n < rank; ++n) one = one && extents[n] == 1;
  // What stands for an empty tensor lies anywhere.
  const std::string where = one ? "zero" : std::to_string(reinterpret_cast<std::uintptr_t>(address));
  const std::string text =
      "map type=" + std::to_string(type) + " rank=" + std::to_string(rank) + " address=" + where + " " + form;
  record(text);
  for (int n = 0; n < 16; ++n) {
    const std::size_t hash = std::hash<std::string>{}(text + std::to_string(n));
    std::memcpy(static_cast<unsigned char*>(map) + 8 * n, &hash, 8);
  }
  return DriverResult::success;
}

DriverResult cuLaunchKernel(FunctionHandle function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                            unsigned, unsigned shared, StreamHandle, void** parameters, void**) {
  if (!has_context()) return DriverResult::invalid_context;
  if (captured >= 0) ++captured;
  if (log_path() == nullptr) return DriverResult::success;
  const std::string name = reinterpret_cast<const char*>(function);
  std::string line = "launch " + name + " grid=" + std::to_string(x) + "," + std::to_string(y) + "," +
                     std::to_string(z) + " block=" + std::to_string(threads) + " shared=" + std::to_string(shared) +
                     " parameters=";
  const char* all = std::getenv("ASTATIDE_FAKE_PARAMETERS");
  const std::string sizes = all == nullptr ? "" : ";" + std::string(all);
  std::size_t at = sizes.find(";" + name + "=");
  if (at != std::string::npos) {
    at += name.size() + 2;
    for (int n = 0; at < sizes.size() && sizes[at - 1] != ';'; ++n) {
      char* end = nullptr;
      const long bytes = std::strtol(sizes.c_str() + at, &end, 10);
      line += (n == 0 ? "" : ",") + hex(parameters[n], static_cast<int>(bytes));
      at = static_cast<std::size_t>(end - sizes.c_str()) + 1;
    }
  }
  record(line);
  return DriverResult::success;
}
}
