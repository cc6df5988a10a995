// The driver without a device refuses what a driver refuses, and says so: else the other tests would see nothing.
#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "runtime/buffer.h"
#include "runtime/nvrtc.h"
#include "tests/support/fake_devices.h"
#include "tests/support/fake_launch.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr int kInvalidContext = 201, kNoCode = 209, kInvalidHandle = 400, kNotFound = 500, kIllegalAddress = 700;

const runtime::DriverApi& api() { return runtime::driver().api(); }

/// The result of a call, and what the log says of it.
std::string fault_of(const std::function<runtime::DriverResult()>& call) {
  const FakeLog log;
  const int result = static_cast<int>(call());
  const std::vector<std::string> faults = log.faults();
  if (result == 0) return faults.empty() ? "" : "a fault that is none";
  return std::to_string(result) + (faults.size() == 1 ? faults.front().substr(faults.front().find(": ")) : "");
}

std::string refused(int result, const std::string& why) { return std::to_string(result) + ": " + why; }

/// A kernel with a pointer for its only parameter, for devices of 9.0.
std::string cubin() {
  runtime::CompileRequest request;
  request.name = "probe.cu";
  request.source = "extern \"C\" __global__ void probe(float* out) { *out = 0; }";
  request.target = "sm_90a";
  return runtime::nvrtc().compile(request).bytes;
}

}  // namespace

TEST_CASE("the driver without a device refuses handles of another context") {
  const OwnContext first(0), second(1);
  std::optional<runtime::Stream> stream = runtime::Stream::create(first.context());
  const runtime::ScopedCurrent scope(second.context());
  runtime::Event event(second.context());
  runtime::GraphHandle graph = nullptr;
  const std::string other = ", current is context " + std::to_string(second.context().id()) + " of device 1";
  const std::string its = "the stream is of context " + std::to_string(first.context().id()) + " of device 0" + other;
  CHECK(fault_of([&] { return api().event_record(event.handle(), stream->handle()); }) == refused(kInvalidHandle, its));
  CHECK(fault_of([&] { return api().stream_begin_capture(stream->handle(), 0); }) == refused(kInvalidHandle, its));
  CHECK(fault_of([&] { return api().stream_end_capture(stream->handle(), &graph); }) == refused(kInvalidHandle, its));
  CHECK(fault_of([&] { return api().stream_destroy(stream->handle()); }) == refused(kInvalidHandle, its));
  // To wait is allowed anywhere.
  CHECK(fault_of([&] { return api().stream_wait_event(stream->handle(), event.handle(), 0); }).empty());
  CHECK(fault_of([&] { return api().stream_synchronize(stream->handle()); }).empty());
  const runtime::StreamHandle gone = stream->handle();
  stream.reset();
  CHECK(fault_of([&] { return api().stream_synchronize(gone); }) == refused(kInvalidHandle, "no such stream"));
}

TEST_CASE("the driver without a device refuses memory of another context, and frees it nowhere else") {
  const OwnContext first(0), second(1);
  const runtime::DeviceBuffer memory(first.context(), 100);
  std::array<std::byte, 101> host{};
  const auto copy = [&](std::size_t bytes) {
    return fault_of([&] { return api().memcpy_dtoh_async(host.data(), memory.pointer(), bytes, nullptr); });
  };
  CHECK(contains(copy(100), "201: no context is current"));
  {
    const runtime::ScopedCurrent scope(second.context());
    CHECK(contains(copy(100), "1: memory of context " + std::to_string(first.context().id()) + " of device 0"));
    CHECK(contains(fault_of([&] { return api().mem_free(memory.pointer()); }), "1: memory of context"));
    CHECK(contains(fault_of([&] { return api().memset_d8_async(memory.pointer(), 0, 1, nullptr); }), "1: memory of"));
  }
  const runtime::ScopedCurrent scope(first.context());
  CHECK(copy(100).empty());
  CHECK(contains(copy(101), "101 bytes"));
  CHECK(contains(fault_of([&] { return api().mem_free(memory.pointer() + 1); }), "is not where memory begins"));
}

TEST_CASE("the driver without a device counts retains, and knows which contexts are gone") {
  const long long retains = fake_count(2, "retains");
  {
    const runtime::Context context = runtime::Context::primary(2), again = context;
    CHECK(fake_count(2, "retains") == retains + 1);
    CHECK(runtime::Context::primary(2).handle() == context.handle());
  }
  CHECK(fake_count(2, "retains") == retains);
  runtime::ContextHandle gone = nullptr;
  {
    const OwnContext own(2);
    gone = own.handle();
  }
  unsigned long long id = 0;
  CHECK(static_cast<int>(api().ctx_get_id(gone, &id)) == kInvalidContext);
  CHECK(fault_of([&] { return api().ctx_push_current(gone); }) == refused(kInvalidContext, "no such context"));
}

TEST_CASE("the driver without a device launches code of its device on memory of its context alone") {
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  const std::string code = cubin();
  const OwnContext own(0), other(1), older(3);
  const runtime::DeviceBuffer mine(own.context(), 4), theirs(other.context(), 4);
  const runtime::Stream apart = runtime::Stream::create(other.context());
  runtime::ModuleHandle module = nullptr;
  runtime::FunctionHandle function = nullptr;
  const auto load = [&](const std::string& image) {
    return fault_of([&] { return api().module_load_data_ex(&module, image.data(), 0, nullptr, nullptr); });
  };
  const auto launch = [&](runtime::DevicePointer pointer, runtime::StreamHandle stream) {
    void* parameters[] = {&pointer};
    return fault_of([&] { return api().launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr); });
  };
  const runtime::ScopedCurrent scope(own.context());
  REQUIRE(load(code).empty());
  CHECK(fault_of([&] { return api().module_get_function(&function, module, "prob"); }) ==
        refused(kNotFound, "no kernel prob"));
  REQUIRE(fault_of([&] { return api().module_get_function(&function, module, "probe"); }).empty());
  CHECK(launch(mine.pointer(), nullptr).empty());
  CHECK(
      contains(launch(theirs.pointer(), nullptr), refused(kIllegalAddress, "parameter 0 of probe lies in memory of")));
  CHECK(contains(launch(mine.pointer(), apart.handle()), refused(kInvalidHandle, "the stream is of")));
  {
    const runtime::ScopedCurrent inner(other.context());
    CHECK(contains(launch(theirs.pointer(), nullptr), refused(kInvalidHandle, "the function is of")));
    CHECK(contains(fault_of([&] { return api().module_unload(module); }), refused(kInvalidHandle, "the module is of")));
  }
  {
    const runtime::ScopedCurrent inner(older.context());
    CHECK(load(code) == refused(kNoCode, "code for 90 on device 3"));
    CHECK(load("no code at all") == refused(kNoCode, "no machine code"));
  }
  CHECK(fault_of([&] { return api().module_unload(module); }).empty());
  CHECK(contains(launch(mine.pointer(), nullptr), refused(kInvalidHandle, "no such function")));
}
