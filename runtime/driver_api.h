#pragma once

#include <cstddef>
#include <cstdint>

// The parts of the CUDA Driver API that the runtime calls, declared from its public documentation, so that neither
// build nor run needs a CUDA header. The tags of the handles are those of cuda.h: a caller's CUcontext or CUstream
// passes as is.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace astatide::runtime {

using ContextHandle = CUctx_st*;
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;
using GraphHandle = CUgraph_st*;
using ExecutableGraphHandle = CUgraphExec_st*;
/// An address in device memory, as CUdeviceptr.
using DevicePointer = unsigned long long;

/// CUresult. Values from the Driver API reference, section "Data types used by CUDA driver".
enum class DriverResult : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  deinitialized = 4,
  stub_library = 34,
  call_requires_newer_driver = 36,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  device_not_licensed = 102,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  jit_compilation_disabled = 223,
  operating_system = 304,
  not_found = 500,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported_on_device = 804,
  mps_connection_failed = 805,
  mps_max_connections_reached = 809,
};

/// CUdevice_attribute.
enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,
  max_registers_per_block = 12,
  clock_rate_khz = 13,
  multiprocessor_count = 16,
  memory_clock_rate_khz = 36,
  global_memory_bus_width = 37,
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  max_shared_memory_per_block_optin = 97,
  reserved_shared_memory_per_block = 111,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_size_bytes = 1,
  local_size_bytes = 3,
  num_regs = 4,
  max_dynamic_shared_size_bytes = 8,
};

/// CUjit_option.
enum class JitOption : int { error_log_buffer = 5, error_log_buffer_size_bytes = 6 };

/// CUpointer_attribute.
enum class PointerAttribute : int { device_ordinal = 9 };

/// CUlaunchAttribute: its value is a union of 64 bytes.
struct LaunchAttribute {
  int id = 0;
  alignas(8) int value[16] = {};
};
constexpr int kProgrammaticStreamSerialization = 6;  // CUlaunchAttributeID; the value is 1 or 0

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0;
constexpr int kCaptureModeRelaxed = 2;  // CUstreamCaptureMode
constexpr int kCaptureStatusNone = 0;   // CUstreamCaptureStatus

/// Function, exported name, parameters. The exported names carry the version that the public header maps the plain name
/// to.
#define ASTATIDE_DRIVER_FUNCTIONS(F)                                                                             \
  F(get_error_name, "cuGetErrorName", (DriverResult, const char**))                                              \
  F(get_error_string, "cuGetErrorString", (DriverResult, const char**))                                          \
  F(init, "cuInit", (unsigned))                                                                                  \
  F(driver_get_version, "cuDriverGetVersion", (int*))                                                            \
  F(device_get_count, "cuDeviceGetCount", (int*))                                                                \
  F(device_get, "cuDeviceGet", (int*, int))                                                                      \
  F(device_get_name, "cuDeviceGetName", (char*, int, int))                                                       \
  F(device_get_attribute, "cuDeviceGetAttribute", (int*, DeviceAttribute, int))                                  \
  F(device_total_mem, "cuDeviceTotalMem_v2", (std::size_t*, int))                                                \
  F(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (ContextHandle*, int))                                       \
  F(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", (int))                                                  \
  F(ctx_get_current, "cuCtxGetCurrent", (ContextHandle*))                                                        \
  F(ctx_push_current, "cuCtxPushCurrent_v2", (ContextHandle))                                                    \
  F(ctx_pop_current, "cuCtxPopCurrent_v2", (ContextHandle*))                                                     \
  F(ctx_get_device, "cuCtxGetDevice", (int*))                                                                    \
  F(ctx_synchronize, "cuCtxSynchronize", ())                                                                     \
  F(mem_get_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                               \
  F(mem_alloc, "cuMemAlloc_v2", (DevicePointer*, std::size_t))                                                   \
  F(mem_free, "cuMemFree_v2", (DevicePointer))                                                                   \
  F(memcpy_htod_async, "cuMemcpyHtoDAsync_v2", (DevicePointer, const void*, std::size_t, StreamHandle))          \
  F(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", (void*, DevicePointer, std::size_t, StreamHandle))                \
  F(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2", (DevicePointer, DevicePointer, std::size_t, StreamHandle))        \
  F(memset_d8_async, "cuMemsetD8Async", (DevicePointer, unsigned char, std::size_t, StreamHandle))               \
  F(pointer_get_attribute, "cuPointerGetAttribute", (void*, PointerAttribute, DevicePointer))                    \
  F(stream_create, "cuStreamCreate", (StreamHandle*, unsigned))                                                  \
  F(stream_synchronize, "cuStreamSynchronize", (StreamHandle))                                                   \
  F(stream_destroy, "cuStreamDestroy_v2", (StreamHandle))                                                        \
  F(stream_is_capturing, "cuStreamIsCapturing", (StreamHandle, int*))                                            \
  F(thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                            \
  F(stream_wait_event, "cuStreamWaitEvent", (StreamHandle, EventHandle, unsigned))                               \
  F(event_create, "cuEventCreate", (EventHandle*, unsigned))                                                     \
  F(event_record, "cuEventRecord", (EventHandle, StreamHandle))                                                  \
  F(event_synchronize, "cuEventSynchronize", (EventHandle))                                                      \
  F(event_elapsed_time, "cuEventElapsedTime", (float*, EventHandle, EventHandle))                                \
  F(event_destroy, "cuEventDestroy_v2", (EventHandle))                                                           \
  F(module_load_data_ex, "cuModuleLoadDataEx", (ModuleHandle*, const void*, unsigned, JitOption*, void**))       \
  F(module_unload, "cuModuleUnload", (ModuleHandle))                                                             \
  F(module_get_function, "cuModuleGetFunction", (FunctionHandle*, ModuleHandle, const char*))                    \
  F(func_get_attribute, "cuFuncGetAttribute", (int*, FunctionAttribute, FunctionHandle))                         \
  F(func_set_attribute, "cuFuncSetAttribute", (FunctionHandle, FunctionAttribute, int))                          \
  F(occupancy_max_active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                  \
    (int*, FunctionHandle, int, std::size_t))                                                                    \
  F(launch_kernel, "cuLaunchKernel",                                                                             \
    (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**, \
     void**))

/// Present in newer drivers only (12.0 and later; graphs since 11.4, launches with attributes since 11.8); null in
/// older ones. A tensor map is 128 bytes aligned to 64.
#define ASTATIDE_OPTIONAL_DRIVER_FUNCTIONS(F)                                                                    \
  F(ctx_get_id, "cuCtxGetId", (ContextHandle, unsigned long long*))                                              \
  F(stream_get_ctx, "cuStreamGetCtx", (StreamHandle, ContextHandle*))                                            \
  F(stream_begin_capture, "cuStreamBeginCapture_v2", (StreamHandle, int))                                        \
  F(stream_end_capture, "cuStreamEndCapture", (StreamHandle, GraphHandle*))                                      \
  F(graph_instantiate, "cuGraphInstantiateWithFlags", (ExecutableGraphHandle*, GraphHandle, unsigned long long)) \
  F(graph_launch, "cuGraphLaunch", (ExecutableGraphHandle, StreamHandle))                                        \
  F(graph_exec_destroy, "cuGraphExecDestroy", (ExecutableGraphHandle))                                           \
  F(graph_destroy, "cuGraphDestroy", (GraphHandle))                                                              \
  F(launch_kernel_ex, "cuLaunchKernelEx", (const LaunchConfig*, FunctionHandle, void**, void**))                 \
  F(tensor_map_encode_tiled, "cuTensorMapEncodeTiled",                                                           \
    (void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*,         \
     const std::uint32_t*, int, int, int, int))

/// The functions of one loaded libcuda.
struct DriverApi {
#define ASTATIDE_DECLARE(function, name, parameters) DriverResult(*function) parameters = nullptr;
  ASTATIDE_DRIVER_FUNCTIONS(ASTATIDE_DECLARE)
  ASTATIDE_OPTIONAL_DRIVER_FUNCTIONS(ASTATIDE_DECLARE)
#undef ASTATIDE_DECLARE
};

}  // namespace astatide::runtime
