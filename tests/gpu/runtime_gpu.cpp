#include "tests/gpu/require_gpu.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/kernel_cache.h"
#include "runtime/launch.h"
#include "runtime/timing.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::TemporaryFolder;

namespace {

CompileRequest kernels(const Context& context) {
  CompileRequest request;
  request.name = "kernels.cu";
  request.target = context.device().target();
  request.source = R"(
extern "C" __global__ void scale(float* values, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

// Reverses blocks of n floats through n * 4 bytes of dynamic shared memory.
extern "C" __global__ void reverse(float* values, long long n) {
  extern __shared__ float tile[];
  for (long long i = threadIdx.x; i < n; i += blockDim.x) tile[i] = values[blockIdx.x * n + i];
  __syncthreads();
  for (long long i = threadIdx.x; i < n; i += blockDim.x) values[blockIdx.x * n + i] = tile[n - 1 - i];
}

extern "C" __global__ void wait(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}
)";
  return request;
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

std::vector<float> download(const DeviceBuffer& buffer, const Stream& stream) {
  std::vector<float> values(buffer.size() / sizeof(float));
  buffer.copy_to_host(std::as_writable_bytes(std::span(values)), stream);
  return values;
}

DeviceBuffer upload(const std::vector<float>& values, const Stream& stream) {
  DeviceBuffer buffer(stream.context(), bytes_of(values).size());
  buffer.copy_from_host(bytes_of(values), stream);
  return buffer;
}

ContextHandle current_context() {
  ContextHandle handle = nullptr;
  driver().check(driver().api().ctx_get_current(&handle), "ask for the current context");
  return handle;
}

void launch_scale(const Module& module, const Stream& stream, const DeviceBuffer& buffer, float factor) {
  const auto count = static_cast<std::int32_t>(buffer.size() / sizeof(float));
  const ArgumentWord arguments[] = {ArgumentWord::pointer(buffer.pointer()), ArgumentWord::f32(factor),
                                    ArgumentWord::i32(count)};
  launch(module.function("scale"), {{(count + 255) / 256, 1, 1}, {256, 1, 1}, 0}, stream, arguments);
}

std::vector<float> scaled(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}

}  // namespace

TEST_CASE("the driver's devices have the facts that schedules are checked against") {
  ASTATIDE_NEED_GPU();
  for (const DeviceFacts& device : driver().devices()) {
    CHECK_FALSE(device.name.empty());
    CHECK(device.major >= 7);
    CHECK(device.multiprocessors > 0);
    CHECK(device.shared_bytes_per_block == 48 * 1024);
    CHECK(device.shared_bytes_per_block_optin >= device.shared_bytes_per_block);
    CHECK(device.l2_bytes > 0);
    CHECK(device.threads_per_block == 1024);
  }
  CHECK_THROWS_AS(driver().device(static_cast<int>(driver().devices().size())), UserError);
  CHECK_THROWS_AS(driver().device(-1), UserError);
}

TEST_CASE("a kernel runs in the primary context on a stream of ours, and no context is current afterwards") {
  ASTATIDE_NEED_GPU();
  REQUIRE(current_context() == nullptr);
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  const auto [module, origin] = cache.load(context, kernels(context));
  CHECK(origin == CacheOrigin::none);
  const std::vector<float> values = counting(1000);
  const DeviceBuffer buffer = upload(values, stream);
  launch_scale(*module, stream, buffer, 3.0f);
  CHECK(download(buffer, stream) == scaled(values, 3.0f));
  CHECK(cache.counters().launches == 1);
  CHECK(cache.load(context, kernels(context)).first == module);
  CHECK(cache.counters().compiles == 1);
  CHECK(current_context() == nullptr);
}

TEST_CASE("the caller's current context and stream are used, and stay as they are") {
  ASTATIDE_NEED_GPU();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  const Context owner = Context::primary(0);
  const ScopedCurrent made_current(owner);
  StreamHandle handle = nullptr;
  driver().check(driver().api().stream_create(&handle, kStreamNonBlocking), "create the caller's stream");
  {
    const Context context = Context::current();
    CHECK(context.handle() == owner.handle());
    const Stream stream = Stream::borrow(context, handle);
    const std::vector<float> values = counting(257);
    const DeviceBuffer buffer = upload(values, stream);
    launch_scale(*cache.load(context, kernels(context)).first, stream, buffer, 0.5f);
    CHECK(download(buffer, stream) == scaled(values, 0.5f));
    CHECK(current_context() == owner.handle());
  }
  // Our values are gone; the caller's stream still works.
  CHECK(driver().api().stream_synchronize(handle) == DriverResult::success);
  driver().check(driver().api().stream_destroy(handle), "destroy the caller's stream");
  CHECK(current_context() == owner.handle());
}

TEST_CASE("launches follow what is in the caller's stream already") {
  ASTATIDE_NEED_GPU();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  const auto module = cache.load(context, kernels(context)).first;
  const DeviceBuffer buffer = upload(counting(64), stream);
  const ArgumentWord cycles[] = {ArgumentWord::i64(20'000'000)};
  launch(module->function("wait"), {{1, 1, 1}, {1, 1, 1}, 0}, stream, cycles);
  launch_scale(*module, stream, buffer, 2.0f);
  launch_scale(*module, stream, buffer, 2.0f);
  CHECK(download(buffer, stream) == scaled(counting(64), 4.0f));
}

TEST_CASE("a kernel gets more than 48 KiB of shared memory, up to the device's limit and no byte more") {
  ASTATIDE_NEED_GPU();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  const auto module = cache.load(context, kernels(context)).first;
  const KernelFunction& reverse = module->function("reverse");
  const std::int64_t most = context.device().shared_bytes_per_block_optin;
  for (std::int64_t bytes : {std::int64_t{1024}, std::int64_t{48 * 1024}, std::int64_t{48 * 1024 + 16}, most}) {
    const std::int64_t n = bytes / 4;
    std::vector<float> values = counting(static_cast<std::size_t>(2 * n));
    const DeviceBuffer buffer = upload(values, stream);
    const ArgumentWord arguments[] = {ArgumentWord::pointer(buffer.pointer()), ArgumentWord::i64(n)};
    launch(reverse, {{2, 1, 1}, {128, 1, 1}, bytes}, stream, arguments);
    std::reverse(values.begin(), values.begin() + n);
    std::reverse(values.begin() + n, values.end());
    CHECK(download(buffer, stream) == values);
  }
  const ArgumentWord none[] = {ArgumentWord::pointer(0), ArgumentWord::i64(0)};
  CHECK_THROWS_AS(launch(reverse, {{1, 1, 1}, {32, 1, 1}, most + 16}, stream, none), UserError);
}

TEST_CASE("a grid without blocks launches nothing, one past the limits is refused before the driver sees it") {
  ASTATIDE_NEED_GPU();
  TemporaryFolder folder;
  KernelCache cache{DiskCache(folder / "cache")};
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  const auto module = cache.load(context, kernels(context)).first;
  const ArgumentWord arguments[] = {ArgumentWord::pointer(0), ArgumentWord::f32(1), ArgumentWord::i32(0)};
  CHECK_NOTHROW(launch(module->function("scale"), {{0, 1, 1}, {256, 1, 1}, 0}, stream, arguments));
  CHECK(cache.counters().launches == 0);
  CHECK_THROWS_AS(launch(module->function("scale"), {{1, 65536, 1}, {256, 1, 1}, 0}, stream, arguments), UserError);
  // The first axis takes more blocks than the others do.
  CHECK_NOTHROW(launch(module->function("scale"), {{70000, 1, 1}, {32, 1, 1}, 0}, stream, arguments));
  CHECK_NOTHROW(stream.synchronize());
}

TEST_CASE("PTX runs where a cubin for the device would") {
  ASTATIDE_NEED_GPU();
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  CompileRequest request = kernels(context);
  request.output = BinaryKind::ptx;
  const Module module(context, nvrtc().compile(request), request.name);
  const DeviceBuffer buffer = upload(counting(100), stream);
  launch_scale(module, stream, buffer, -1.0f);
  CHECK(download(buffer, stream) == scaled(counting(100), -1.0f));
}

TEST_CASE("L12: a cubin for another architecture is refused with the device and what was built") {
  ASTATIDE_NEED_GPU();
  const Context context = Context::primary(0);
  CompileRequest request = kernels(context);
  for (int number : nvrtc().supported_architectures()) {
    if (number / 10 == context.device().major) continue;
    request.target = "sm_" + std::to_string(number);
    CHECK_THROWS_AS(Module(context, nvrtc().compile(request), request.name), MachineError);
    return;
  }
}

TEST_CASE("a kernel name that a module lacks is a fault of ours, and a buffer too large for the device the machine's") {
  ASTATIDE_NEED_GPU();
  const Context context = Context::primary(0);
  const CompileRequest request = kernels(context);
  const Module module(context, nvrtc().compile(request), request.name);
  CHECK_THROWS_AS(module.function("missing"), InternalError);
  CHECK_THROWS_AS(DeviceBuffer(context, std::size_t{1} << 46), MachineError);
  CHECK(DeviceBuffer(context, 0).pointer() == 0);
}

TEST_CASE("the device of memory comes from its address") {
  ASTATIDE_NEED_GPU();
  const int last = static_cast<int>(driver().devices().size()) - 1;
  const DeviceBuffer buffer(Context::primary(last), 16);
  CHECK(driver().device_of(buffer.pointer(), "Q") == last);
  CHECK_THROWS_AS(driver().device_of(12345, "Q"), UserError);
}

TEST_CASE("timing measures the device's time of each launch, with the L2 cache flushed or not") {
  ASTATIDE_NEED_GPU();
  const Context context = Context::primary(0);
  const Stream stream = Stream::create(context);
  const CompileRequest request = kernels(context);
  const Module module(context, nvrtc().compile(request), request.name);
  const auto time_wait = [&](std::int64_t cycles, bool flush) {
    TimingOptions options;
    options.repetitions = 11;
    options.flush_l2 = flush;
    return time_launches(stream, options, [&] {
      const ArgumentWord arguments[] = {ArgumentWord::i64(cycles)};
      launch(module.function("wait"), {{1, 1, 1}, {1, 1, 1}, 0}, stream, arguments);
    });
  };
  for (bool flush : {false, true}) {
    const Timing shorter = time_wait(2'000'000, flush);
    const Timing longer = time_wait(8'000'000, flush);
    CHECK(shorter.samples_ms.size() == 11);
    // At most 4 GHz: 2 million cycles take half a millisecond or more.
    CHECK(shorter.min_ms > 0.5);
    CHECK(longer.median_ms > 2 * shorter.median_ms);
    CHECK(shorter.min_ms <= shorter.median_ms);
  }
  CHECK(current_context() == nullptr);
}
