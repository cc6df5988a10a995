// Several devices, contexts, threads and streams on the driver without a device, which refuses what is used outside of
// the context that it was made in. tests/gpu/contexts_gpu.cpp has the same flows, and results, for what is really
// there.
#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "compiler/cuda/emit.h"
#include "runtime/buffer.h"
#include "runtime/graph.h"
#include "tests/support/c_handles.h"
#include "tests/support/fake_devices.h"
#include "tests/support/fake_launch.h"
#include "tests/support/in_threads.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

using Sizes = std::map<std::string, std::int64_t>;

constexpr int kDevices = 4;

Sizes lengths(std::int64_t length_q, std::int64_t length_kv) {
  return {{"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", length_q}, {"Sk", length_kv}, {"D", 64}, {"Dv", 64}};
}

const Algorithm& causal_gqa() {
  static const Algorithm algorithm = load_algorithm("causal_gqa");
  return algorithm;
}

/// Engines that compile nothing again.
EngineOptions options_of_engine() {
  static const TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  return options;
}

/// One engine for all tests of this process, as a program has one for all of its devices.
Engine& engine() {
  static Engine own(options_of_engine());
  return own;
}

/// What was compiled, now or before.
std::uint64_t artifacts(const Engine& engine) { return engine.counters().compiles + engine.counters().disk_hits; }

Executable built(const std::string& schedule, int device) {
  return engine().build(causal_gqa(), load_schedule(schedule),
                        {Device::cuda(device), ScalarType::bf16, lengths(1, 1), {}});
}

/// Built on its own for this test: what it has loaded goes with it.
Executable fresh(Engine& engine, const std::string& schedule, int device) {
  return engine.build(causal_gqa(), load_schedule(schedule),
                      {Device::cuda(device), ScalarType::bf16, lengths(1, 1), {}});
}

runtime::ContextHandle current() {
  runtime::ContextHandle handle = nullptr;
  runtime::driver().check(runtime::driver().api().ctx_get_current(&handle), "ask for the current context");
  return handle;
}

/// Of each kernel which parameters are the device's own memory: counters, and scratch where the caller brings none.
using OwnParameters = std::map<std::string, std::vector<std::size_t>>;

OwnParameters own_parameters(const Executable& executable) {
  using Kind = tile::Parameter::Kind;
  OwnParameters out;
  for (const cuda::Source::KernelInfo& kernel : cuda::emit(executable.program()).kernels) {
    for (std::size_t n = 0; n < kernel.parameters.size(); ++n) {
      const tile::Parameter& parameter = kernel.parameters[n];
      const tile::Tensor* const tensor = executable.program().find_tensor(parameter.name);
      const bool scratch = parameter.kind == Kind::pointer && tensor->role == tile::Tensor::Role::scratch;
      if (scratch || parameter.kind == Kind::counter || parameter.kind == Kind::arrivals) out[kernel.name].push_back(n);
    }
  }
  return out;
}

/// Of all launches of a log, those of one device.
std::vector<std::string> own_words(const FakeLog& log, const OwnParameters& parameters, int device) {
  std::vector<std::string> words;
  for (const FakeLog::Launch& launch : log.launches()) {
    const auto own = parameters.find(launch.kernel);
    if (launch.device != device || own == parameters.end()) continue;
    for (const std::size_t n : own->second) words.push_back(launch.parameters.at(n));
  }
  return words;
}

#define ASTATIDE_NEED_FAKE_LAUNCH() \
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing)

}  // namespace

TEST_CASE("four devices are launched on at once by two threads each, into streams of their own and into a shared one") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  constexpr int kThreads = 2 * kDevices, kLaunches = 12;
  for (int device = 0; device < kDevices; ++device)
    for (std::uint64_t stream = 0; stream < 4; ++stream) fake_stream(device, stream);
  Engine own(options_of_engine());
  std::array<std::string, kDevices> chosen;
  std::array<std::size_t, kDevices> kernels{};
  const FakeLog log;
  in_threads(kThreads, [&](int number) {
    const int device = number % kDevices;
    // Two requests: several kernels with scratch memory, and tensor maps where the device has them.
    const BuildOptions options{Device::cuda(device), ScalarType::bf16, lengths(1, 4000), {}};
    const NamedSchedule schedule = own.choose(causal_gqa(), options);
    const Executable executable = own.build(causal_gqa(), schedule.schedule, options);
    if (number < kDevices) {
      chosen[static_cast<std::size_t>(device)] = schedule.name;
      kernels[static_cast<std::size_t>(device)] = executable.program().kernels.size();
    }
    for (int n = 0; n < kLaunches; ++n) {
      LaunchArguments arguments = fake_arguments(executable, lengths(1, 2000 + 500 * (n % 3)),
                                                 static_cast<std::uint64_t>(number / kDevices), device);
      arguments.stream = fake_stream(device, n % 2 == 0 ? 3 : 1 + static_cast<std::uint64_t>(number / kDevices));
      executable.launch(arguments);
      if (current() != nullptr) throw InternalError("a launch leaves a context behind");
    }
  });
  CHECK(log.faults().empty());
  // The last is an older one.
  CHECK(chosen[0].starts_with("sm90/"));
  CHECK(chosen[3].starts_with("sm80/"));
  CHECK((chosen[1] == chosen[0] && chosen[2] == chosen[0]));
  CHECK(artifacts(own) == 2);
  for (int device = 0; device < kDevices; ++device) {
    INFO("cuda:" << device);
    CHECK(log.count("load device=" + std::to_string(device)) - log.count("unload device=" + std::to_string(device)) ==
          1);
    std::map<int, std::size_t> launches;
    for (const FakeLog::Launch& launch : log.launches()) launches[launch.stream] += launch.device == device;
    const std::size_t each = kLaunches * kernels[static_cast<std::size_t>(device)];
    CHECK(launches == std::map<int, std::size_t>{{1, each / 2}, {2, each / 2}, {3, each}});
  }
}

TEST_CASE("counters and scratch memory are those of one device and one stream") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  for (const char* schedule : {"sm90/flash3", "sm90/decode_gqa"}) {
    INFO(schedule);
    std::set<std::string> seen;
    std::size_t expected = 0;
    for (int device = 0; device < 2; ++device) {
      const Executable executable = built(schedule, device);
      const std::string shown = parameter_sizes(executable);
      const OwnParameters parameters = own_parameters(executable);
      for (std::uint64_t stream = 0; stream < 3; ++stream) {
        std::set<std::string> first;
        for (int n = 0; n < 3; ++n) {
          const FakeLog log(shown);
          LaunchArguments arguments = fake_arguments(executable, lengths(1, 3000), stream, device);
          arguments.stream = fake_stream(device, stream);
          executable.launch(arguments);
          CHECK(log.faults().empty());
          const std::vector<std::string> all = own_words(log, parameters, device);
          const std::set<std::string> words(all.begin(), all.end());
          CHECK_FALSE(words.empty());
          // The same at each launch into the stream, and of no other.
          if (n == 0) first = words;
          CHECK(words == first);
        }
        expected += first.size();
        seen.merge(first);
      }
    }
    CHECK(seen.size() == expected);
  }
}

TEST_CASE("kernels that may start early are launched so, and others are not") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  for (const auto& [schedule, early] : {std::pair("sm90/decode_gqa_short", true), {"sm90/decode_gqa", false}}) {
    INFO(schedule);
    const Executable executable = built(schedule, 0);
    const FakeLog log(parameter_sizes(executable));
    LaunchArguments arguments = fake_arguments(executable, lengths(1, 3000), 0, 0);
    arguments.stream = fake_stream(0, 0);
    executable.launch(arguments);
    CHECK(log.faults().empty());
    const std::vector<std::string> launches = log.lines("launch ");
    REQUIRE(launches.size() == 1);
    CHECK((launches[0].find(" dependent ") != std::string::npos) == early);
    CHECK((cuda::emit(executable.program()).text.find("wait_for_earlier();") != std::string::npos) == early);
  }
}

TEST_CASE("an address that was another device's is described anew, and only its owner's kernels take it") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const std::array executables = {built("sm90/flash3", 0), built("sm90/flash3", 1)};
  const FakeLog log;
  std::set<void*> before;
  for (int turn = 0; turn < 4; ++turn) {
    const int device = turn % 2;
    const Executable& executable = executables[static_cast<std::size_t>(device)];
    // What the other has freed is given to this one.
    std::list<runtime::DeviceBuffer> buffers;
    LaunchArguments arguments = fake_arguments(executable, lengths(64, 64), 0, device);
    std::set<void*> addresses;
    for (auto& [name, view] : arguments.tensors) {
      buffers.emplace_back(runtime::Context::primary(device), std::size_t{1} << 20);
      view.data = reinterpret_cast<void*>(buffers.back().pointer());
      addresses.insert(view.data);
    }
    if (turn > 0) CHECK(addresses == before);
    before = addresses;
    for (int n = 0; n < 2; ++n) executable.launch(arguments);
    const std::string refusal =
        message_of<UserError>([&] { executables[static_cast<std::size_t>(1 - device)].launch(arguments); });
    CHECK(contains(refusal, "lies in the memory of cuda:" + std::to_string(device) +
                                ", the kernel was built for cuda:" + std::to_string(1 - device)));
  }
  CHECK(log.faults().empty());
  CHECK(log.launches().size() == 8);
}

TEST_CASE("a launch runs in the current context where it is one of its device, and leaves it current") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const FakeLog log;
  {
    const OwnContext first(0), second(0), other(1);
    Engine own(options_of_engine());
    for (const char* schedule : {"sm90/flash3", "sm90/decode_gqa"}) {
      const Executable executable = fresh(own, schedule, 0);
      for (int turn = 0; turn < 3; ++turn)
        for (const OwnContext* callers : {&first, &second, &other}) {
          const runtime::ScopedCurrent scope(callers->context());
          // Of another device's context nothing is used: the launch is one of the primary context.
          const runtime::Context runs_in = callers == &other ? runtime::Context::primary(0) : callers->context();
          LaunchArguments arguments = fake_arguments(executable, lengths(2, 300), 0, 0);
          std::list<runtime::DeviceBuffer> buffers;
          for (auto& [name, view] : arguments.tensors)
            view.data = reinterpret_cast<void*>(buffers.emplace_back(runs_in, std::size_t{1} << 20).pointer());
          const runtime::Stream stream = runtime::Stream::create(runs_in);
          for (void* handle : {static_cast<void*>(nullptr), static_cast<void*>(stream.handle())}) {
            arguments.stream = handle;
            for (int n = 0; n < 2; ++n) executable.launch(arguments);
            CHECK(current() == callers->handle());
          }
          arguments.tensors.at("K").data = fake_memory(1, 0);
          CHECK(contains(message_of<UserError>([&] { executable.launch(arguments); }), "cuda:1"));
          CHECK(current() == callers->handle());
        }
    }
  }
  CHECK(current() == nullptr);
  CHECK(log.faults().empty());
  // Two schedules in three contexts, once each.
  CHECK(log.count("load device=0") == 6);
  CHECK(log.count("unload device=0") == 6);
}

TEST_CASE("a context that takes the handle of one that is gone gets what it needs, and keeps it") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const FakeLog log;
  std::set<runtime::ContextHandle> handles;
  std::set<std::uint64_t> ids;
  {
    std::optional<Engine> own;
    own.emplace(options_of_engine());
    std::optional<Executable> executable = fresh(*own, "sm90/flash3", 1);
    std::optional<OwnContext> context;
    for (int turn = 0; turn < 3; ++turn) {
      context.reset();
      context.emplace(1);
      handles.insert(context->handle());
      ids.insert(context->context().id());
      const runtime::ScopedCurrent scope(context->context());
      LaunchArguments arguments = fake_arguments(*executable, lengths(64, 64), 0, 1);
      std::list<runtime::DeviceBuffer> buffers;
      for (auto& [name, view] : arguments.tensors)
        view.data = reinterpret_cast<void*>(buffers.emplace_back(context->context(), std::size_t{1} << 20).pointer());
      executable->launch(arguments);
    }
    const long long objects = fake_count(1, "objects"), memory = fake_count(1, "memory");
    // Of three modules and counters two went with their contexts; they have handles and addresses of what is there now.
    executable.reset();
    own.reset();
    CHECK(fake_count(1, "objects") < objects);
    CHECK(fake_count(1, "memory") < memory);
  }
  CHECK(handles.size() == 1);
  CHECK(ids.size() == 3);
  CHECK(log.faults().empty());
}

TEST_CASE("memory, a workspace and a stream of another device or context are refused before anything runs") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const Executable executable = built("sm90/decode_gqa", 1);
  const OwnContext own(1);
  const runtime::Stream apart = runtime::Stream::create(own.context());
  const LaunchArguments good = fake_arguments(executable, lengths(1, 3000), 0, 1);
  for (int n = 0; n < 2; ++n) {
    executable.launch(good);
    const FakeLog log;
    const auto refusal = [&](const std::function<void(LaunchArguments&)>& change) {
      LaunchArguments bad = good;
      change(bad);
      return message_of<UserError>([&] { executable.launch(bad); });
    };
    CHECK(contains(refusal([](auto& a) { a.tensors["V"].data = fake_memory(2, 0); }),
                   "V lies in the memory of cuda:2, the kernel was built for cuda:1"));
    CHECK(contains(refusal([](auto& a) { a.workspace = fake_memory(0, 0); }),
                   "the workspace lies in the memory of cuda:0, the kernel was built for cuda:1"));
    CHECK(contains(refusal([](auto& a) { a.stream = fake_stream(0, 1); }),
                   "the stream is one of cuda:0, the launch runs on cuda:1"));
    CHECK(contains(refusal([&](auto& a) { a.stream = apart.handle(); }),
                   "the stream belongs to another context of cuda:1 than the launch"));
    CHECK(contains(refusal([](auto& a) {
                     a.stream = fake_stream(0, 1);
                     a.workspace = fake_memory(1, 1 << 20);
                   }),
                   "the stream is one of cuda:0"));
    CHECK(log.launches().empty());
    CHECK(current() == nullptr);
  }
}

TEST_CASE("graphs are captured on two devices at once, with scratch memory and counters of their own") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const FakeLog log(parameter_sizes(built("sm90/decode_gqa", 0)));
  in_threads(2, [&](int device) {
    const Executable executable = built("sm90/decode_gqa", device);
    const runtime::Stream stream = runtime::Stream::create(runtime::Context::primary(device));
    LaunchArguments arguments = fake_arguments(executable, lengths(1, 3000), 0, device);
    arguments.stream = stream.handle();
    const runtime::Graph graph = runtime::Graph::capture(stream, [&] {
      for (int n = 0; n < 2; ++n) executable.launch(arguments);
    });
    for (int n = 0; n < 3; ++n) graph.launch(stream);
    executable.launch(arguments);
  });
  CHECK(log.faults().empty());
  CHECK(log.count("graph") == 6);
  CHECK(log.count("graph of 2 launches") == 2);
  const OwnParameters parameters = own_parameters(built("sm90/decode_gqa", 0));
  std::set<std::string> all;
  std::size_t count = 0;
  for (int device = 0; device < 2; ++device) {
    // Three launches, each with its own.
    std::set<std::string> own;
    for (const std::string& word : own_words(log, parameters, device)) own.insert(word);
    CHECK(own.size() % 3 == 0);
    CHECK_FALSE(own.empty());
    count += own.size();
    all.merge(own);
  }
  CHECK(all.size() == count);
}

TEST_CASE("what is prepared for one device is found there, and compiled once for devices of a kind") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  Engine own(options_of_engine());
  PrepareRequest request;
  request.sizes = lengths(1, 4000);
  request.dtype = ScalarType::bf16;
  std::array<Prepared, kDevices> prepared;
  const FakeLog log;
  in_threads(kDevices, [&](int device) {
    PrepareOptions options;
    options.device = Device::cuda(device);
    options.threads = 1;
    prepared[static_cast<std::size_t>(device)] = own.prepare(causal_gqa(), {request}, options).front();
  });
  CHECK(artifacts(own) == 2);
  CHECK(prepared[1].schedule == prepared[0].schedule);
  CHECK(prepared[0].target == "sm_90a");
  CHECK(prepared[3].target == "sm_80");
  in_threads(kDevices, [&](int device) {
    const Executable executable = own.build(causal_gqa(), {Device::cuda(device), ScalarType::bf16, request.sizes, {}});
    if (executable.report().cache != "memory") throw InternalError("built again");
    executable.launch(fake_arguments(executable, request.sizes, 0, device));
  });
  CHECK(artifacts(own) == 2);
  CHECK(log.faults().empty());
  for (int device = 0; device < kDevices; ++device) CHECK(log.count("load device=" + std::to_string(device)) == 1);
}

TEST_CASE("the C interface builds for a device and takes its tensors alone") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const auto algorithm = load_c<AstatideAlgorithm>("causal_gqa");
  const auto schedule = load_c<AstatideSchedule>("sm90/flash3");
  const std::string cache = options_of_engine().cache_directory;
  const auto own = made<AstatideEngine>([&](AstatideEngine** out, AstatideError** error) {
    AstatideEngineOptions options{};
    options.struct_size = sizeof options;
    options.cache_directory = cache.c_str();
    return astatide_engine_create(&options, out, error);
  });
  const std::vector<AstatideSize> known = {{"D", 64}, {"Dv", 64}};
  const auto build = [&](int device) {
    return made<AstatideExecutable>([&](AstatideExecutable** out, AstatideError** error) {
      const AstatideBuildOptions options{
          sizeof options, {kDLCUDA, device}, dl_type(ScalarType::bf16), known.data(), known.size()};
      return astatide_engine_build(own.get(), algorithm.get(), schedule.get(), &options, out, error);
    });
  };
  const CExecutable executable = build(1);
  const Executable same = built("sm90/flash3", 1);
  const auto launch = [&](const std::map<std::string, int>& elsewhere) {
    CTensors tensors;
    for (const auto& [name, view] : fake_arguments(same, lengths(64, 64), 0, 1).tensors) {
      const auto other = elsewhere.find(name);
      tensors.add(name, view.data, {kDLCUDA, other == elsewhere.end() ? 1 : other->second}, view.dtype, view.shape);
    }
    AstatideLaunch arguments = tensors.launch();
    arguments.stream = fake_stream(1, 2);
    AstatideError* error = nullptr;
    const AstatideStatus status = astatide_executable_launch(executable.get(), &arguments, &error);
    return status == ASTATIDE_STATUS_OK ? "" : taken_text(error);
  };
  const FakeLog log;
  CHECK(launch({}).empty());
  CHECK(contains(launch({{"K", 0}}), "K lies on kDLCUDA:0, the executable was built for kDLCUDA:1"));
  CHECK(contains(launch({{"O", 2}}), "O lies on kDLCUDA:2"));
  CHECK(log.faults().empty());
  REQUIRE(log.launches().size() == 1);
  CHECK(log.launches().front().device == 1);
  CHECK(log.launches().front().stream == 2);
  CHECK_THROWS_WITH(build(9), Catch::Contains("no device cuda:9: this machine has 4"));
}

TEST_CASE("an engine that goes leaves nothing on any device") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  // What other tests keep is retained for good.
  for (int device = 0; device < 2; ++device) fake_memory(device, 0);
  const auto counted = [] {
    std::vector<long long> all;
    for (int device = 0; device < 2; ++device)
      for (const char* what : {"retains", "contexts", "objects", "memory"}) all.push_back(fake_count(device, what));
    return all;
  };
  std::map<int, LaunchArguments> kept;
  for (int device = 0; device < 2; ++device)
    kept[device] = fake_arguments(built("sm90/decode_gqa", device), lengths(1, 3000), 0, device);
  const FakeLog log;
  const std::vector<long long> before = counted();
  {
    Engine own(options_of_engine());
    for (const auto& [device, arguments] : kept) fresh(own, "sm90/decode_gqa", device).launch(arguments);
    CHECK(counted() != before);
  }
  CHECK(counted() == before);
  CHECK(log.faults().empty());
}
