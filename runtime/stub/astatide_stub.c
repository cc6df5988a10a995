/* Loads and launches kernels that `astatide export` wrote; see astatide_stub.h. */
#include "astatide_stub.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions of the CUDA Driver API that are called, declared from its public documentation. The exported names carry
 * the version that the public header maps the plain name to. */
#define DRIVER_FUNCTIONS(F)                                                                                            \
  F(init, "cuInit", (unsigned))                                                                                        \
  F(current, "cuCtxGetCurrent", (void**))                                                                              \
  F(device_of_context, "cuCtxGetDevice", (int*))                                                                       \
  F(attribute, "cuDeviceGetAttribute", (int*, int, int))                                                               \
  F(device_of_pointer, "cuPointerGetAttribute", (void*, int, unsigned long long))                                      \
  F(load, "cuModuleLoadData", (void**, const void*))                                                                   \
  F(unload, "cuModuleUnload", (void*))                                                                                 \
  F(function, "cuModuleGetFunction", (void**, void*, const char*))                                                     \
  F(function_attribute, "cuFuncGetAttribute", (int*, int, void*))                                                      \
  F(set_function_attribute, "cuFuncSetAttribute", (void*, int, int))                                                   \
  F(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, void*, int, size_t))                              \
  F(clear, "cuMemsetD8Async", (unsigned long long, unsigned char, size_t, void*))                                      \
  F(error_name, "cuGetErrorName", (int, const char**))                                                                 \
  F(launch, "cuLaunchKernel",                                                                                          \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**))
/* With 11.8. */
#define DEPENDENT_FUNCTION(F) F(launch_ex, "cuLaunchKernelEx", (const launch_config*, void*, void**, void**))
/* With 12.0. */
#define MAP_FUNCTION(F)                                                                                                \
  F(encode_map, "cuTensorMapEncodeTiled",                                                                              \
    (void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int))

/* CUlaunchAttribute, CUlaunchConfig and a CUlaunchAttributeID. */
typedef struct launch_attribute {
  int id;
  _Alignas(8) int value[16];
} launch_attribute;
typedef struct launch_config {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  launch_attribute* attributes;
  unsigned attribute_count;
} launch_config;
enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

#define DECLARE(name, exported, parameters) int(*name) parameters;
typedef struct driver {
  DRIVER_FUNCTIONS(DECLARE)
  DEPENDENT_FUNCTION(DECLARE)
  MAP_FUNCTION(DECLARE)
} driver;

/* CUdevice_attribute, CUfunction_attribute and CUpointer_attribute. */
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED_BYTES_OPTIN = 97 };
enum { STATIC_SHARED_BYTES = 1, DYNAMIC_SHARED_BYTES = 8 };
enum { DEVICE_OF_POINTER = 9 };

struct astatide_code {
  driver api;
  void* library;
  void* module;
  const astatide_target* targets;
  int target, device;
  struct {
    void* function;
    int64_t resident;
  } kernels[];
};

int astatide_fail(astatide_error* error, astatide_status status, const char* format, ...) {
  if (error == NULL) return (int)status;
  va_list values;
  va_start(values, format);
  error->status = status;
  error->driver_result = 0;
  vsnprintf(error->text, sizeof error->text, format, values);
  va_end(values);
  return (int)status;
}

static int check(const driver* api, int result, const char* act, const char* of, astatide_error* error) {
  if (result == 0) return ASTATIDE_OK;
  const char* name = NULL;
  api->error_name(result, &name);
  astatide_fail(error, ASTATIDE_DRIVER_FAULT, "%s%s: the CUDA driver says %d (%s)", act, of, result,
                name != NULL ? name : "no name");
  if (error != NULL) error->driver_result = result;
  return ASTATIDE_DRIVER_FAULT;
}
/* ISO C has no conversion from void* to a function. */
static void take_symbol(void* library, const char* name, void* function, size_t size) {
  void* const symbol = dlsym(library, name);
  memcpy(function, &symbol, size);
}

static int open_driver(void** library, driver* api, int needs_maps, astatide_error* error) {
  *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (*library == NULL) {
    const char* const reason = dlerror();
    return astatide_fail(error, ASTATIDE_NO_DRIVER, "no CUDA driver: %s", reason != NULL ? reason : "libcuda.so.1");
  }
#define LOAD(name, exported, parameters) take_symbol(*library, exported, &api->name, sizeof api->name);
#define REQUIRE(name, exported, parameters) \
  if (api->name == NULL)                    \
    return astatide_fail(error, ASTATIDE_NO_DRIVER, "libcuda.so.1 is no usable CUDA driver: it lacks %s", exported);
  DRIVER_FUNCTIONS(LOAD)
  DEPENDENT_FUNCTION(LOAD)
  MAP_FUNCTION(LOAD)
  DRIVER_FUNCTIONS(REQUIRE)
  if (needs_maps) {
    MAP_FUNCTION(REQUIRE)
  }
  return check(api, api->init(0), "start the CUDA driver", "", error);
}

/* Machine code runs on its major capability from its minor one on; with a suffix on exactly its own. */
static int runs_on(const astatide_target* target, int major, int minor) {
  return target->major == major && (target->exact ? target->minor == minor : target->minor <= minor);
}

static int choose_target(const astatide_target* targets, int count, int major, int minor, astatide_error* error,
                         int* chosen) {
  *chosen = -1;
  for (int n = 0; n < count; ++n) {
    if (!runs_on(&targets[n], major, minor)) continue;
    const int better = *chosen < 0 || targets[n].minor > targets[*chosen].minor ||
                       (targets[n].minor == targets[*chosen].minor && targets[n].exact);
    if (better) *chosen = n;
  }
  if (*chosen >= 0) return ASTATIDE_OK;
  char built[128] = "";
  for (int n = 0; n < count; ++n) {
    const size_t length = strlen(built);
    snprintf(built + length, sizeof built - length, "%s%s", n == 0 ? "" : ", ", targets[n].name);
  }
  return astatide_fail(error, ASTATIDE_NO_CODE, "the device has compute capability %d.%d, the kernels are built for %s",
                       major, minor, built);
}

static int open_kernel(astatide_code* code, int n, astatide_error* error) {
  const driver* const api = &code->api;
  const astatide_kernel* const kernel = &code->targets[code->target].kernels[n];
  void* function = NULL;
  int fixed = 0, most = 0;
  ASTATIDE_TRY(check(api, api->function(&function, code->module, kernel->name), "find the kernel ", kernel->name, error));
  ASTATIDE_TRY(check(api, api->function_attribute(&fixed, STATIC_SHARED_BYTES, function), "ask the kernel ", kernel->name, error));
  ASTATIDE_TRY(check(api, api->attribute(&most, SHARED_BYTES_OPTIN, code->device), "ask the device for its shared memory", "",
            error));
  if (kernel->shared_bytes + fixed > most)
    return astatide_fail(error, ASTATIDE_NO_CODE, "%s needs %lld bytes of shared memory a block, the device has %d",
                         kernel->name, (long long)(kernel->shared_bytes + fixed), most);
  if (kernel->shared_bytes + fixed > ASTATIDE_SHARED_BYTES_WITHOUT_ASKING)
    ASTATIDE_TRY(check(api, api->set_function_attribute(function, DYNAMIC_SHARED_BYTES, (int)kernel->shared_bytes),
              "allow shared memory to ", kernel->name, error));
  code->kernels[n].function = function;
  code->kernels[n].resident = 1;
  if (kernel->asks_resident) {
    int blocks = 0, multiprocessors = 0;
    ASTATIDE_TRY(check(api, api->occupancy(&blocks, function, kernel->threads, (size_t)kernel->shared_bytes),
              "ask how many blocks a multiprocessor holds of ", kernel->name, error));
    ASTATIDE_TRY(check(api, api->attribute(&multiprocessors, MULTIPROCESSORS, code->device),
              "ask the device for its multiprocessors", "", error));
    code->kernels[n].resident = astatide_max(1, (int64_t)blocks * multiprocessors);
  }
  return ASTATIDE_OK;
}

static int open_code(astatide_code* code, int count, astatide_error* error) {
  void* context = NULL;
  int major = 0, minor = 0;
  const driver* const api = &code->api;
  ASTATIDE_TRY(check(api, api->current(&context), "ask for the current context", "", error));
  if (context == NULL) return astatide_fail(error, ASTATIDE_NO_CONTEXT, "no CUDA context is current in this thread");
  ASTATIDE_TRY(check(api, api->device_of_context(&code->device), "ask for the context's device", "", error));
  ASTATIDE_TRY(check(api, api->attribute(&major, MAJOR, code->device), "ask the device for its capability", "", error));
  ASTATIDE_TRY(check(api, api->attribute(&minor, MINOR, code->device), "ask the device for its capability", "", error));
  ASTATIDE_TRY(choose_target(code->targets, count, major, minor, error, &code->target));
  const astatide_target* const target = &code->targets[code->target];
  ASTATIDE_TRY(check(api, api->load(&code->module, target->code), "load the code for ", target->name, error));
  for (int n = 0; n < target->kernel_count; ++n) ASTATIDE_TRY(open_kernel(code, n, error));
  return ASTATIDE_OK;
}

int astatide_open(const astatide_target* targets, int count, astatide_code** out, astatide_error* error) {
  int kernels = 0, needs_maps = 0;
  for (int n = 0; n < count; ++n) {
    kernels = targets[n].kernel_count > kernels ? targets[n].kernel_count : kernels;
    needs_maps = needs_maps || targets[n].needs_maps;
  }
  *out = NULL;
  astatide_code* const code = calloc(1, sizeof *code + (size_t)kernels * sizeof code->kernels[0]);
  if (code == NULL) return astatide_fail(error, ASTATIDE_NO_MEMORY, "the host has no memory left");
  code->targets = targets;
  int status = open_driver(&code->library, &code->api, needs_maps, error);
  if (status == ASTATIDE_OK) status = open_code(code, count, error);
  if (status != ASTATIDE_OK) {
    astatide_close(code);
    return status;
  }
  *out = code;
  return ASTATIDE_OK;
}

void astatide_close(astatide_code* code) {
  if (code == NULL) return;
  if (code->module != NULL) code->api.unload(code->module);
  if (code->library != NULL) dlclose(code->library);
  free(code);
}

const char* astatide_chosen_target(const astatide_code* code) { return code->targets[code->target].name; }

int astatide_target_index(const astatide_code* code, const astatide_target* targets) {
  return code != NULL && code->targets == targets ? code->target : -1;
}

int64_t astatide_resident_blocks(const astatide_code* code, int kernel) { return code->kernels[kernel].resident; }

int64_t astatide_add(int64_t a, int64_t b, int* fault) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) *fault = 1;
  return out;
}
int64_t astatide_sub(int64_t a, int64_t b, int* fault) {
  int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) *fault = 1;
  return out;
}
int64_t astatide_mul(int64_t a, int64_t b, int* fault) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) *fault = 1;
  return out;
}
int64_t astatide_div(int64_t a, int64_t b, int* fault) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return *fault = 1, 0;
  const int64_t truncated = a / b;
  return truncated * b != a && (a < 0) != (b < 0) ? truncated - 1 : truncated;
}
int64_t astatide_mod(int64_t a, int64_t b, int* fault) {
  if (b == -1) return 0;
  return a - astatide_div(a, b, fault) * b;
}
int64_t astatide_abs(int64_t a, int* fault) { return a < 0 ? astatide_sub(0, a, fault) : a; }
int64_t astatide_min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t astatide_max(int64_t a, int64_t b) { return a > b ? a : b; }

double astatide_real_mod(double a, double b) { return a - floor(a / b) * b; }
double astatide_real_min(double a, double b) { return a < b || isnan(a) ? a : b; }
double astatide_real_max(double a, double b) { return a > b || isnan(a) ? a : b; }
double astatide_sigmoid(double a) { return a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)); }
double astatide_safe(double a) { return a == -HUGE_VAL ? 0 : a; }
double astatide_absorb(double a, double b) { return a == 0 ? 0 : a * b; }

int astatide_check_extent(const char* name, int64_t value, int64_t most, astatide_error* error) {
  if (value >= 0 && value <= most) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_EXTENT, "%s is %lld, these kernels take 0 to %lld", name, (long long)value,
                       (long long)most);
}

int astatide_check_known(const char* name, int64_t value, int64_t known, astatide_error* error) {
  if (value == known) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_EXTENT, "%s is %lld, these kernels were exported for %lld", name,
                       (long long)value, (long long)known);
}

int astatide_check_groups(const char* index, int64_t from, int64_t onto, astatide_error* error) {
  if (astatide_groups_are_even(from, onto)) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_EXTENT, "%s maps %lld onto %lld in groups of unequal size", index,
                       (long long)from, (long long)onto);
}

int astatide_check_multiple(const char* value_text, int64_t value, const char* of_text, int64_t of,
                            astatide_error* error) {
  if (astatide_is_multiple(value, of)) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_EXTENT, "%s is %lld, which %s = %lld does not divide", value_text,
                       (long long)value, of_text, (long long)of);
}

int astatide_check_fault(int fault, astatide_error* error) {
  if (!fault) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_TOO_LARGE, "a size is over 2^63 for these extents, or divided by 0");
}

static int check_owner(const astatide_code* code, astatide_status status, const char* name, const void* data,
                       astatide_error* error) {
  int device = -1;
  if (code->api.device_of_pointer(&device, DEVICE_OF_POINTER, (unsigned long long)(uintptr_t)data) != 0)
    return astatide_fail(error, status, "%s: %p is no device memory that the CUDA driver knows", name, data);
  if (device != code->device)
    return astatide_fail(error, status, "%s lies in the memory of device %d, the code was opened for device %d", name,
                         device, code->device);
  return ASTATIDE_OK;
}

int astatide_check_tensor(const astatide_code* code, const char* name, const void* data, int rank, const int64_t* shape,
                          const int64_t* strides, int64_t element_bytes, int output, astatide_error* error) {
  int64_t reach = 0;
  for (int n = 0; n < rank; ++n)
    if (shape[n] <= 0) return ASTATIDE_OK;
  for (int n = 0; n < rank; ++n) {
    if (!astatide_add_reach(strides[n], element_bytes, shape[n], &reach))
      return astatide_fail(error, ASTATIDE_BAD_TENSOR, "%s with stride %lld of dimension %d reaches past 2^63 bytes", name,
                           (long long)strides[n], n + 1);
    if (output && strides[n] == 0 && shape[n] > 1)
      return astatide_fail(error, ASTATIDE_BAD_TENSOR,
                           "%s is written, with stride 0 over the %lld elements of dimension %d", name,
                           (long long)shape[n], n + 1);
  }
  if (data == NULL) return astatide_fail(error, ASTATIDE_BAD_TENSOR, "%s has no memory", name);
  if ((uintptr_t)data % (uintptr_t)element_bytes != 0)
    return astatide_fail(error, ASTATIDE_BAD_TENSOR, "the address of %s is no multiple of %lld, the size of its elements",
                         name, (long long)element_bytes);
  return check_owner(code, ASTATIDE_BAD_TENSOR, name, data, error);
}

int astatide_check_index(const char* index, const char* tensor, int dimension, astatide_range range, int64_t length,
                         astatide_error* error) {
  if (range.least >= 0 && range.most < (double)length) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_EXTENT, "%s goes from %.0f to %.0f, dimension %d of %s has the length %lld",
                       index, range.least, range.most, dimension, tensor, (long long)length);
}

int astatide_check_scalar(const char* name, double value, astatide_error* error) {
  if (isfinite((float)value)) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_BAD_SCALAR, "scalar %s is %g, which f32 does not hold", name, value);
}

int astatide_count_blocks(const char* kernel, const int64_t* counts, int axes, int64_t most, int64_t* blocks,
                          astatide_error* error) {
  int fault = 0;
  *blocks = 1;
  for (int n = 0; n < axes; ++n)
    if (counts[n] <= 0) return *blocks = 0, ASTATIDE_OK;
  for (int n = 0; n < axes; ++n) *blocks = astatide_mul(*blocks, counts[n], &fault);
  if (fault) return astatide_fail(error, ASTATIDE_TOO_LARGE, "%s needs more than 2^63 blocks", kernel);
  if (*blocks <= most) return ASTATIDE_OK;
  return astatide_fail(error, ASTATIDE_TOO_LARGE, "%s needs %lld blocks, a grid has at most %lld", kernel,
                       (long long)*blocks, (long long)most);
}

int astatide_make_map(const astatide_code* code, const char* name, astatide_tiled_tensor tensor, uint64_t zero,
                      astatide_map* map, astatide_error* error) {
  astatide_map_encoding encoding;
  int dimension = 0;
  if (astatide_is_empty(&tensor)) astatide_make_one_zero(&tensor, zero);
  switch (astatide_encode_map(&tensor, &encoding, &dimension)) {
    case ASTATIDE_MAP_GOOD:
      break;
    case ASTATIDE_MAP_BASE:
      return astatide_fail(error, ASTATIDE_BAD_TENSOR, "%s begins at %#llx, tma copies multiples of 16 bytes", name,
                           (unsigned long long)tensor.address);
    case ASTATIDE_MAP_INNERMOST:
      return astatide_fail(error, ASTATIDE_BAD_TENSOR, "the elements of a row of %s are %lld apart, tma copies neighbours",
                           name, (long long)tensor.strides[0]);
    case ASTATIDE_MAP_STRIDE:
      return astatide_fail(error, ASTATIDE_BAD_TENSOR,
                           "%s has a stride of %lld elements = %lld bytes, tma takes multiples of 16 bytes from 0 on", name,
                           (long long)tensor.strides[dimension], 2 * (long long)tensor.strides[dimension]);
  }
  return check(&code->api,
               code->api.encode_map(map->bytes, encoding.type, (uint32_t)tensor.rank, (void*)(uintptr_t)tensor.address,
                                    tensor.extents, encoding.strides, tensor.box, encoding.steps, encoding.interleave,
                                    encoding.swizzle, encoding.promotion, encoding.fill),
               "describe for TMA ", name, error);
}

int astatide_check_workspace(const astatide_code* code, const void* workspace, int64_t bytes, int64_t needed,
                             astatide_error* error) {
  if (needed == 0) return ASTATIDE_OK;
  if (workspace == NULL || bytes < needed)
    return astatide_fail(error, ASTATIDE_BAD_WORKSPACE, "the workspace has %lld bytes, %lld are needed",
                         workspace == NULL ? 0 : (long long)bytes, (long long)needed);
  if ((uintptr_t)workspace % (uintptr_t)ASTATIDE_SCRATCH_ALIGNMENT != 0)
    return astatide_fail(error, ASTATIDE_BAD_WORKSPACE, "the workspace begins at %p, wanted is a multiple of %lld bytes",
                         workspace, (long long)ASTATIDE_SCRATCH_ALIGNMENT);
  return check_owner(code, ASTATIDE_BAD_WORKSPACE, "the workspace", workspace, error);
}

int astatide_clear(const astatide_code* code, uint64_t address, int64_t bytes, void* stream, astatide_error* error) {
  return check(&code->api, code->api.clear(address, 0, (size_t)bytes, stream), "clear the workspace", "", error);
}

int astatide_launch(const astatide_code* code, int n, int64_t blocks, void** parameters, void* stream,
                    astatide_error* error) {
  const astatide_kernel* const kernel = &code->targets[code->target].kernels[n];
  if (kernel->persistent) blocks = astatide_persistent_blocks(blocks, code->kernels[n].resident, kernel->cluster);
  const unsigned threads = (unsigned)kernel->threads, bytes = (unsigned)kernel->shared_bytes;
  void* const function = code->kernels[n].function;
  int result;
  if (kernel->dependent && code->api.launch_ex != NULL) {
    launch_attribute early = {PROGRAMMATIC_STREAM_SERIALIZATION, {1}};
    const launch_config config = {{(unsigned)blocks, 1, 1}, {threads, 1, 1}, bytes, stream, &early, 1};
    result = code->api.launch_ex(&config, function, parameters, NULL);
  } else {
    result = code->api.launch(function, (unsigned)blocks, 1, 1, threads, 1, 1, bytes, stream, parameters, NULL);
  }
  return check(&code->api, result, "launch ", kernel->name, error);
}
