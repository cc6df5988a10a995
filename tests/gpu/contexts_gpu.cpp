// One executable in several contexts, and several devices from several threads: each launch goes where its caller is,
// and what one has settled or keeps is not taken for another.
#include <catch2/catch.hpp>
#include <list>
#include <thread>

#include "tests/gpu/device_case.h"
#include "tests/gpu/driver_symbol.h"
#include "tests/gpu/require_gpu.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr int kRounds = 6;

Case small_case() {
  Case c;
  c.algorithm = causal_attention();
  c.dtype = ScalarType::bf16;
  c.extents = {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 70}, {"Sk", 300}, {"D", 128}, {"Dv", 128}};
  fill_gaussian(c, 81);
  return c;
}

/// A context of the caller's own, as programs have that share a device between libraries.
class OwnContext {
 public:
  OwnContext() {
    int (*create)(runtime::ContextHandle*, unsigned flags, int device) = nullptr;
    load_driver_symbol("cuCtxCreate_v2", create);
    load_driver_symbol("cuCtxDestroy_v2", destroy_);
    REQUIRE(create(&handle_, 0, 0) == 0);
    runtime::ContextHandle left = nullptr;
    runtime::driver().check(runtime::driver().api().ctx_pop_current(&left), "leave a context");
  }
  ~OwnContext() { destroy_(handle_); }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  runtime::Context context() const { return runtime::Context::borrow(handle_); }

 private:
  int (*destroy_)(runtime::ContextHandle) = nullptr;
  runtime::ContextHandle handle_ = nullptr;
};

void require_outputs(const DeviceCase& launched, const runtime::Stream& stream, const HostTensors& expected) {
  for (const auto& [name, tensor] : launched.take_outputs(stream)) require_same_bits(tensor, expected.at(name));
}

}  // namespace

TEST_CASE("one executable launches in two contexts of a device by turns") {
  ASTATIDE_NEED_GPU();
  const Case c = small_case();
  for (const char* name : {"simt/flash1", "sm80/flash2", "sm80/decode", "sm90/flash3"}) {
    if (!runs_here(name)) continue;
    INFO(name);
    const HostTensors expected = run_case(c, name, Device::cuda(0));
    const OwnContext own;
    // What was loaded into a context goes before it does.
    EngineOptions options;
    options.use_disk_cache = false;
    Engine engine(options);
    const Executable executable =
        engine.build(c.algorithm, load_schedule(name), {Device::cuda(0), c.dtype, c.extents, {}});
    const runtime::Stream streams[] = {runtime::Stream::create(runtime::Context::primary(0)),
                                       runtime::Stream::create(own.context())};
    std::list<DeviceCase> cases;
    for (const runtime::Stream& stream : streams) cases.emplace_back(c, executable, stream);
    for (int round = 0; round < kRounds; ++round) {
      const runtime::Stream* stream = streams;
      for (DeviceCase& launched : cases) {
        const runtime::ScopedCurrent scope(stream->context());
        launched.clear_outputs(*stream);
        launched.launch(*stream);
        require_outputs(launched, *stream, expected);
        ++stream;
      }
    }
  }
}

TEST_CASE("all devices work at once, each for threads and streams of its own") {
  ASTATIDE_NEED_GPU();
  const Case c = small_case();
  const std::size_t devices = runtime::driver().devices().size();
  for (const char* name : {"simt/flash1", "sm80/decode", "sm90/flash3"}) {
    if (!runs_here(name)) continue;
    INFO(name << " on " << devices << " devices");
    const HostTensors expected = run_case(c, name, Device::cuda(0));
    std::list<std::pair<runtime::Stream, DeviceCase>> lanes;
    for (const runtime::DeviceFacts& device : runtime::driver().devices()) {
      const runtime::Context context = runtime::Context::primary(device.ordinal);
      const Executable executable =
          case_engine().build(c.algorithm, load_schedule(name), {Device::cuda(device.ordinal), c.dtype, c.extents, {}});
      for (int n = 0; n < 2; ++n) {
        const runtime::Stream stream = runtime::Stream::create(context);
        lanes.emplace_back(stream, DeviceCase(c, executable, stream));
      }
    }
    std::vector<std::thread> threads;
    for (auto& [stream, launched] : lanes)
      threads.emplace_back([&stream = stream, &launched = launched] {
        // No context is current on a new thread, and none is left behind.
        for (int round = 0; round < kRounds; ++round) launched.clear_outputs(stream), launched.launch(stream);
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& [stream, launched] : lanes) require_outputs(launched, stream, expected);
  }
}
