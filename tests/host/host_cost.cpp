// A launch of what was launched before costs the host little: nothing is allocated, no lock is taken, and what reaches
// the driver is what a first launch gives it.
#include <catch2/catch.hpp>
#include <cmath>
#include <list>

#include "tests/host/counted.h"
#include "tests/support/case_run.h"
#include "tests/support/fake_devices.h"
#include "tests/support/fake_launch.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

// Before any test asks for a driver.
[[maybe_unused]] const bool is_fake = (use_fake_driver(), true);

using Sizes = std::map<std::string, std::int64_t>;

Sizes sizes(std::int64_t length_q, std::int64_t length_kv) {
  return {{"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", length_q}, {"Sk", length_kv}, {"D", 128}, {"Dv", 128}};
}

/// Schedules whose launches differ in kind: tensor maps and a counter of tiles, several kernels with scratch memory.
const std::vector<std::string>& schedules() {
  static const std::vector<std::string> names = {"sm90/flash3", "sm90/decode_gqa"};
  return names;
}

/// Built once for all tests of this process.
Executable built(const std::string& schedule) {
  static std::map<std::string, Executable> all;
  const auto found = all.find(schedule);
  if (found != all.end()) return found->second;
  const Algorithm algorithm = load_algorithm("causal_gqa");
  return all
      .emplace(schedule, case_engine().build(algorithm, load_schedule(schedule),
                                             {Device::cuda(0), ScalarType::bf16, sizes(1, 1), {}}))
      .first->second;
}

/// The same code with nothing launched yet.
Executable fresh(const std::string& schedule) {
  BuildOptions options{Device::cuda(0), ScalarType::bf16, sizes(1, 1), {}};
  options.trace = [](std::string_view, const tile::Program&) {};  // is not kept in memory
  return case_engine().build(load_algorithm("causal_gqa"), load_schedule(schedule), options);
}

/// Memory that is no tensor's.
void* workspace() { return fake_memory(0, 1 << 20); }

/// What the driver is given by `act`: launches with the bytes of their parameters.
template <class Act>
std::vector<std::string> recorded(const Executable& executable, const Act& act) {
  const FakeLog log(parameter_sizes(executable, false));
  act();
  return log.lines("launch ");
}

#define ASTATIDE_NEED_FAKE_LAUNCH() \
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing)

}  // namespace

TEST_CASE("a warm launch on a GPU allocates nothing and takes no lock, for any of many layers and several streams") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  // Kept where the compiler has to: it may leave out what is freed at once.
  REQUIRE(counted_in([] {
            int* volatile kept = new int;
            delete kept;
          }).allocations == 1);
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    const Executable executable = built(schedule);
    std::vector<LaunchArguments> layers;
    for (std::uint64_t layer = 0; layer < 8; ++layer) {
      layers.push_back(fake_arguments(executable, sizes(layer % 2 == 0 ? 1 : 16, 3000), layer));
      layers.back().stream = fake_stream(0, layer % 3);
      layers.back().workspace = workspace();
    }
    const auto launch_all = [&] {
      for (const LaunchArguments& layer : layers) executable.launch(layer);
    };
    const Counted cold = counted_in(launch_all);
    CHECK(cold.allocations > 100);
    CHECK((cold.locks > 0 || !counts_locks()));
    const std::uint64_t before = case_engine().counters().launches;
    const Counted counted = counted_in([&] {
      for (int n = 0; n < 20; ++n) launch_all();
    });
    CHECK(counted.allocations == 0);
    CHECK(counted.locks == 0);
    CHECK(case_engine().counters().launches - before == 20 * layers.size() * executable.program().kernels.size());
    // Scratch memory of the executable's own is the stream's, and so is its lock.
    if (executable.workspace_bytes(sizes(1, 3000)) == 0) continue;
    for (LaunchArguments& layer : layers) layer.workspace = nullptr;
    launch_all();
    const Counted own = counted_in(launch_all);
    CHECK(own.allocations == 0);
    CHECK(own.locks == (counts_locks() ? layers.size() : 0));
  }
}

TEST_CASE(
    "a warm launch gives the driver what a first launch gives it: addresses, strides, lengths, scalars, scratch") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  for (const std::string& schedule : schedules()) {
    const Executable warm = built(schedule);
    std::vector<LaunchArguments> launches;
    for (std::uint64_t number = 0; number < 3; ++number)
      for (const auto& [length_q, length_kv] : {std::pair{1, 77}, {16, 77}, {1, 4000}, {0, 5}, {3, 0}})
        launches.push_back(fake_arguments(warm, sizes(length_q, length_kv), number));
    LaunchArguments strided = launches[0];
    strided.tensors["K"].strides[2] += 64;
    strided.tensors["K"].strides[1] += 64 * 77;
    strided.tensors["K"].strides[0] += 2 * 64 * 77;
    launches.push_back(strided);
    LaunchArguments scaled = launches[0];
    scaled.scalars["scale"] = 0.0;
    launches.push_back(scaled);
    scaled.scalars["scale"] = -0.0;
    launches.push_back(scaled);
    for (LaunchArguments& launch : launches) launch.workspace = workspace();
    for (const LaunchArguments& launch : launches) warm.launch(launch);
    const Executable cold = fresh(schedule);
    for (std::size_t n = 0; n < launches.size(); ++n) {
      INFO(schedule << ", launch " << n);
      const auto act = [&](const Executable& executable) {
        return recorded(executable, [&] { executable.launch(launches[n]); });
      };
      // One has launched them all before, the other those up to here.
      CHECK(act(warm) == act(cold));
    }
  }
}

TEST_CASE("a warm launch refuses what a first one refuses") {
  ASTATIDE_NEED_FAKE_LAUNCH();
  const Executable executable = built("sm90/flash3");
  const LaunchArguments good = fake_arguments(executable, sizes(64, 64), 0);
  const auto behind = [&](std::ptrdiff_t bytes) { return static_cast<char*>(good.tensors.at("K").data) + bytes; };
  for (int n = 0; n < 3; ++n) {
    executable.launch(good);
    const auto refusal = [&](const std::function<void(LaunchArguments&)>& change) {
      LaunchArguments bad = good;
      change(bad);
      return message_of<UserError>([&] { executable.launch(bad); });
    };
    CHECK(contains(refusal([](auto& a) { a.tensors["K"].data = nullptr; }), "K has no memory"));
    CHECK(contains(refusal([&](auto& a) { a.tensors["K"].data = behind(1); }), "no multiple of 2"));
    CHECK(contains(refusal([&](auto& a) { a.tensors["K"].data = behind(8); }), "multiples of 16 bytes"));
    CHECK(contains(refusal([](auto& a) { a.tensors["V"].data = reinterpret_cast<void*>(0x1000); }),
                   "no device memory that the CUDA driver knows"));
    CHECK(contains(refusal([](auto& a) { a.tensors["W"] = a.tensors["V"]; }), "W"));
    CHECK(contains(refusal([](auto& a) { a.tensors.erase("V"); }), "V"));
    CHECK(contains(refusal([](auto& a) { a.tensors["V"].dtype = ScalarType::f16; }), "V is f16"));
    CHECK(contains(refusal([](auto& a) { a.scalars["scale"] = HUGE_VAL; }), "scale"));
    CHECK(contains(refusal([](auto& a) { a.extents["Sk"] = 65; }), "Sk"));
  }
}

#if ASTATIDE_WITH_CPU

TEST_CASE("a warm launch on the CPU allocates nothing") {
  for (const char* schedule : {"cpu/flash2", "cpu/decode_gqa", "cpu/standard"}) {
    INFO(schedule);
    const Sizes lengths = {{"B", 1}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 3}, {"Sk", 40}, {"D", 16}, {"Dv", 16}};
    const Executable executable = case_engine().build(load_algorithm("causal_gqa"), load_schedule(schedule),
                                                      {Device::cpu(), ScalarType::f32, lengths, {}});
    LaunchArguments arguments;
    std::list<std::vector<float>> memory;
    for (const char* name : {"Q", "K", "V", "O", "L"}) {
      TensorView view = describe_tensor(executable, name, lengths);
      view.data = memory.emplace_back(4 * 40 * 16, 0.5F).data();
      arguments.tensors[name] = view;
    }
    for (int n = 0; n < 2; ++n) executable.launch(arguments);
    CHECK(counted_in([&] {
            for (int n = 0; n < 10; ++n) executable.launch(arguments);
          }).allocations == 0);
  }
}

TEST_CASE("a warm launch on the CPU looks again at what indices read") {
  const Sizes sizes = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 20}, {"D", 8}, {"Dv", 8}, {"Pages", 3}};
  const Executable executable = case_engine().build(load_algorithm("paged"), load_schedule("cpu/flash2"),
                                                    {Device::cpu(), ScalarType::f32, sizes, {}});
  std::vector<float> floats(4 * 16 * 8, 0.25F), out(8, 0), lse(1, 0);
  std::vector<std::int32_t> pages = {2, 0}, length = {20};
  LaunchArguments arguments;
  arguments.extents = sizes;
  for (const char* name : {"Q", "K", "V", "page", "length", "O", "L"})
    arguments.tensors[name] = describe_tensor(executable, name, sizes);
  for (const char* name : {"Q", "K", "V"}) arguments.tensors[name].data = floats.data();
  arguments.tensors["page"].data = pages.data();
  arguments.tensors["length"].data = length.data();
  arguments.tensors["O"].data = out.data();
  arguments.tensors["L"].data = lse.data();
  for (int n = 0; n < 2; ++n) {
    executable.launch(arguments);
    CHECK(std::abs(out[0] - 0.25F) < 1e-6F);
    pages[1] = 3;
    CHECK(contains(message_of<UserError>([&] { executable.launch(arguments); }), "page"));
    pages[1] = 0;
  }
}

#endif
