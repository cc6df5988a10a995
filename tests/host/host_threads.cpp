// Engines and executables that many threads use at once, on streams of their own.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <list>
#include <thread>

#include "tests/support/case_run.h"
#include "tests/support/fake_launch.h"
#include "tests/support/in_threads.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

using Sizes = std::map<std::string, std::int64_t>;

}  // namespace

TEST_CASE("8 threads that launch one executable into streams of their own, and into one, launch all that they say") {
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  constexpr int kThreads = 8, kLaunches = 200;
  EngineOptions options;
  options.use_disk_cache = false;
  Engine engine(options);
  const Algorithm algorithm = load_algorithm("causal_gqa");
  const Schedule schedule = load_schedule("sm90/decode_gqa");
  const auto sizes = [](std::int64_t length) {
    return Sizes{{"B", 1}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 1}, {"Sk", length}, {"D", 128}, {"Dv", 128}};
  };
  std::atomic<std::uint64_t> kernels{0};
  in_threads(kThreads, [&](int number) {
    const Executable executable = engine.build(algorithm, schedule, {Device::cuda(0), ScalarType::bf16, sizes(1), {}});
    for (int n = 0; n < kLaunches; ++n) {
      // More shapes than are kept, so that threads take from each other.
      LaunchArguments arguments =
          fake_arguments(executable, sizes(1 + 64 * (n % 24)), static_cast<std::uint64_t>(number));
      // New threads have no context: TMA's maps, too, are described in one.
      arguments.stream = fake_stream(0, n % 2 == 0 ? static_cast<std::uint64_t>(number) : 9);
      executable.launch(arguments);
      kernels += executable.program().kernels.size();
    }
  });
  CHECK(engine.counters().compiles == 1);
  CHECK(engine.counters().memory_hits >= kThreads - 1);
  CHECK(engine.counters().launches == kernels);
}

#if ASTATIDE_WITH_CPU

TEST_CASE("threads that build and launch on the CPU at once compute what one thread computes") {
  constexpr int kThreads = 6, kRounds = 12;
  TemporaryFolder folder;
  EngineOptions options;
  options.cache_directory = (folder / "cache").string();
  options.threads = 2;
  const Algorithm algorithm = load_algorithm("causal_gqa");
  const char* const schedules[] = {"cpu/flash2", "cpu/decode_gqa"};

  struct Problem {
    Executable executable;
    std::list<std::vector<float>> memory;
    LaunchArguments arguments;
    const std::vector<float>* out = nullptr;
  };
  const auto problem = [&](Engine& engine, int number) {
    const Sizes sizes = {{"B", 1},  {"Hq", 4}, {"Hkv", 2}, {"Sq", 1 + number % 3}, {"Sk", 30 + number},
                         {"D", 16}, {"Dv", 16}};
    Problem out{
        engine.build(algorithm, load_schedule(schedules[number % 2]), {Device::cpu(), ScalarType::f32, sizes, {}}),
        {},
        {},
        nullptr};
    unsigned state = static_cast<unsigned>(number) + 1;
    for (const char* name : {"Q", "K", "V", "O", "L"}) {
      TensorView view = describe_tensor(out.executable, name, sizes);
      std::vector<float>& memory = out.memory.emplace_back(4 * 60 * 16);
      for (float& value : memory)
        value = static_cast<float>((state = state * 1664525 + 1013904223) >> 20) / 4096 - 0.5F;
      if (std::strcmp(name, "O") == 0) out.out = &memory;
      view.data = memory.data();
      out.arguments.tensors[name] = view;
    }
    return out;
  };
  std::vector<std::vector<float>> expected;
  {
    Engine engine(options);
    for (int number = 0; number < kThreads; ++number) {
      const Problem alone = problem(engine, number);
      alone.executable.launch(alone.arguments);
      expected.push_back(*alone.out);
    }
  }
  // Cold in memory, warm on disk; and counters and warnings are asked for meanwhile.
  Engine engine(options);
  std::atomic<int> wrong{0};
  in_threads(kThreads, [&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      const int which = (number + round) % kThreads;
      const Problem own = problem(engine, which);
      for (int n = 0; n < 3; ++n) own.executable.launch(own.arguments);
      if (*own.out != expected[static_cast<std::size_t>(which)]) ++wrong;
      if (!engine.take_warnings().empty() || engine.counters().compiles > 0) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(engine.counters().disk_hits == 2);
}

TEST_CASE("kernels are prepared while others are launched") {
  EngineOptions options;
  options.use_disk_cache = false;
  options.threads = 2;
  Engine engine(options);
  const Algorithm algorithm = load_algorithm("causal_gqa");
  in_threads(3, [&](int number) {
    PrepareRequest request;
    for (const std::int64_t head_dim : {8, 16, 24}) {
      request.sizes = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 9}, {"Sk", 9}, {"D", head_dim}, {"Dv", 8}};
      if (number == 0) engine.prepare(algorithm, {request});
      engine.build(algorithm, {Device::cpu(), ScalarType::f32, request.sizes, {}});
    }
  });
  CHECK(engine.counters().compiles == 3);
}

#endif
