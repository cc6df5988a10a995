// Launches: grids larger than a dimension of the hardware, requests that differ in one thing only, the caller's stream
// and workspace.
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Tiles of 16 by 16, so that short sequences cost little.
Schedule small_tiles() {
  ScheduleBuilder builder("sm_80");
  builder.name("small_tiles").rewrite(RewriteMode::online);
  builder.place(PlacementBuilder("O")
                    .tile({{"i", 16}, {"j", 16}})
                    .reorder({"b", "h", "i.o", "j.o"})
                    .gpu_blocks({"i.o", "h", "b"})
                    .threads(8, 8));
  builder.place(PlacementBuilder("S").compute_at("j.o").store_in(Space::register_file));
  builder.place(PlacementBuilder("P").compute_at("j.o").store_in(Space::shared));
  builder.place(PlacementBuilder("Q").stage_at("i.o").store_in(Space::shared));
  for (const char* name : {"K", "V"}) builder.place(PlacementBuilder(name).stage_at("j.o").store_in(Space::shared));
  return builder.build();
}

/// Two keys with scores 1 and 0 at scale 1, V = 1 and 0: O is the logistic function of the scale.
Case two_keys(ScalarType dtype, Algorithm algorithm = attention()) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3}, {"Sk", 2}, {"D", 16}, {"Dv", 16}};
  c.dtype = dtype;
  c.scalars["scale"] = 1;
  c.inputs["Q"] = filled(dtype, query_shape(c), [](const Index& at) { return at[3] == 0 ? 1.0 : 0.0; });
  c.inputs["K"] = filled(dtype, key_shape(c), [](const Index& at) { return at[2] == 0 && at[3] == 0 ? 1.0 : 0.0; });
  c.inputs["V"] = filled(dtype, value_shape(c), [](const Index& at) { return at[2] == 0 ? 1.0 : 0.0; });
  return c;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

void require_output(const HostTensors& out, double expected, ScalarType dtype) {
  require_values(
      out.at("O"), [expected](const Index&) { return expected; }, units(dtype, dtype == ScalarType::f32 ? 8 : 1));
}

}  // namespace

TEST_CASE("L01: a product of batch and heads over 65535 is a grid like any other") {
  // pytorch/pytorch#142228: heads and batch were grid dimensions of their own.
  ASTATIDE_NEED_CASE_DEVICE();
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{65535, 1}, {65536, 1}, {1, 65536}};
  if (case_device().kind == Device::Kind::cuda) sizes.emplace_back(70000, 3);
  for (const auto& [batch, heads] : sizes) {
    Case c;
    c.algorithm = attention();
    c.extents = {{"B", batch}, {"Hq", heads}, {"Hkv", heads}, {"Sq", 10}, {"Sk", 10}, {"D", 16}, {"Dv", 16}};
    c.inputs["Q"] = runtime::zeros(c.dtype, query_shape(c));
    c.inputs["K"] = runtime::zeros(c.dtype, key_shape(c));
    // Ten rows for all, broadcast over batch and heads.
    runtime::HostTensor ramp =
        filled(c.dtype, {1, 1, 10, 16}, [](const Index& at) { return static_cast<double>(at[2] + 1) / 256; });
    ramp.shape = value_shape(c);
    ramp.strides = {0, 0, 16, 1};
    c.inputs["V"] = ramp;
    INFO("B " << batch << ", Hq " << heads);
    const HostTensors out = run_case(c, small_tiles());
    for (const bool last : {false, true}) {
      const std::int64_t b = last ? batch - 1 : 0, h = last ? heads - 1 : 0;
      for (std::int64_t row = 0; row < 10; ++row) {
        REQUIRE(std::fabs(runtime::get(out.at("O"), Index{b, h, row, 15}) - 0.021484375) < 1e-8);
        REQUIRE(std::fabs(runtime::get(out.at("L"), Index{b, h, row}) - 2.302585) < 1e-5);
      }
    }
  }
}

TEST_CASE("L01: a grid over the limit is refused with the axis, the number and the limit") {
  ASTATIDE_NEED_CASE_DEVICE();
  // Only shapes are looked at: the memory does not exist.
#ifndef ASTATIDE_WITH_CPU
  ASTATIDE_SKIP("this build has no CPU backend");
#endif
  const Executable executable =
      case_engine().build(attention(), small_tiles(), {case_device(), ScalarType::f32, {{"D", 16}, {"Dv", 16}}, {}});
  LaunchArguments arguments;
  static float memory[16];
  const std::int64_t many = 2'000'000'000;
  for (const char* name : {"Q", "K", "V"})
    arguments.tensors[name] = {memory, ScalarType::f32, {many, many, 10, 16}, {0, 0, 0, 1}};
  arguments.tensors["O"] = {memory, ScalarType::f32, {many, many, 10, 16}, {1, 1, 16, 1}};
  arguments.tensors["L"] = {memory, ScalarType::f32, {many, many, 10}, {1, 1, 1}};
  REQUIRE_THROWS_WITH(executable.launch(arguments), Catch::Contains("needs 4000000000000000000 blocks") &&
                                                        Catch::Contains("allows") && Catch::Contains("b = 2000000000"));
}

TEST_CASE("L05: what differs in scale, strides, type or algorithm is another launch, in any order") {
  // flashinfer-ai/flashinfer PR 4014, #4146, #4270: a plan was kept that had the first scale in it.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText capped;
  capped.scalars = "cap: 1";
  capped.steps = {"A[b,h,i,j] = cap * tanh(S[b,h,i,j] / cap)"};
  const std::vector<std::pair<std::string, std::function<void()>>> requests = {
      {"scale 1",
       [] {
         for_each_schedule(two_keys(ScalarType::f32),
                           [](const HostTensors& out) { require_output(out, logistic(1), ScalarType::f32); });
       }},
      {"scale 3",
       [] {
         Case c = two_keys(ScalarType::f32);
         c.scalars["scale"] = 3;
         for_each_schedule(c, [](const HostTensors& out) { require_output(out, logistic(3), ScalarType::f32); });
       }},
      {"the default scale",
       [] {
         Case c = two_keys(ScalarType::f32);
         c.scalars.clear();
         for_each_schedule(c, [](const HostTensors& out) { require_output(out, logistic(0.25), ScalarType::f32); });
       }},
      {"K strided",
       [] {
         Case c = two_keys(ScalarType::f32);
         c.inputs["K"] = with_strides(c.inputs["K"], {2 * 2 * 16, 2 * 2 * 16, 2 * 16, 2});
         for_each_schedule(c, [](const HostTensors& out) { require_output(out, logistic(1), ScalarType::f32); });
       }},
      {"f16",
       [] {
         for_each_schedule(two_keys(ScalarType::f16),
                           [](const HostTensors& out) { require_output(out, logistic(1), ScalarType::f16); });
       }},
      {"bf16",
       [] {
         for_each_schedule(two_keys(ScalarType::bf16),
                           [](const HostTensors& out) { require_output(out, logistic(1), ScalarType::bf16); });
       }},
      {"cap",
       [&capped] {
         for_each_schedule(two_keys(ScalarType::f32, attention(capped)), [](const HostTensors& out) {
           require_output(out, logistic(std::tanh(1.0)), ScalarType::f32);
         });
       }},
      {"only the second key",
       [] {
         for_each_schedule(two_keys(ScalarType::f32, attention_where("j >= 1")),
                           [](const HostTensors& out) { require_output(out, 0, ScalarType::f32); });
       }},
      {"as many heads of keys",
       [] {
         Case c = two_keys(ScalarType::f32);
         c.extents["Hkv"] = 2;
         // The second head's keys are the other way round.
         c.inputs["K"] =
             filled(c.dtype, key_shape(c), [](const Index& at) { return at[2] == at[1] && at[3] == 0 ? 1.0 : 0.0; });
         c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return at[2] == 0 ? 1.0 : 0.0; });
         for_each_schedule(c, [](const HostTensors& out) {
           require_values(
               out.at("O"), [](const Index& at) { return at[1] == 0 ? logistic(1) : logistic(-1); },
               units(ScalarType::f32, 8));
         });
       }},
  };
  for (const auto& [name, request] : requests) {
    INFO(name);
    request();
  }
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    INFO(request->first << ", backwards");
    request->second();
  }
}

TEST_CASE("L07: a request that was built before compiles nothing, whatever was built in between") {
  // tile-ai/tilelang#2662: builds of the same name changed the key.
  ASTATIDE_NEED_CASE_DEVICE();
  Engine engine({.cache_directory = "", .use_disk_cache = false, .threads = 0});
  const BuildOptions options{case_device(), ScalarType::f32, {{"D", 16}, {"Dv", 16}}, {}};
  const Executable first = engine.build(attention(), load_schedule("simt/flash2"), options);
  REQUIRE(first.report().cache == "none");
  const std::uint64_t compiles = engine.counters().compiles;
  engine.build(attention(), small_tiles(), options);
  engine.build(causal_attention(), load_schedule("simt/flash2"), options);
  const std::uint64_t more = engine.counters().compiles;
  REQUIRE(more == compiles + 2);
  // Lengths are no part of a build.
  BuildOptions longer = options;
  longer.sizes["Sq"] = 12345;
  const Executable again = engine.build(attention(), load_schedule("simt/flash2"), longer);
  REQUIRE(again.report().cache == "memory");
  REQUIRE(engine.counters().compiles == more);
}

TEST_CASE("one executable serves many threads and lengths at once") {
  ASTATIDE_NEED_CASE_DEVICE();
  // Scratch tensors are the launch's own.
  for (const char* schedule : {"simt/flash1", "simt/flash2"}) {
    std::vector<std::thread> threads;
    std::vector<HostTensors> results(6);
    std::vector<std::string> errors(6);
    const auto make = [](std::size_t n) {
      Case c = two_keys(ScalarType::f32, causal_attention());
      c.extents["Sk"] = 30 + 17 * static_cast<std::int64_t>(n);
      c.extents["Sq"] = 20 + 5 * static_cast<std::int64_t>(n);
      c.inputs["Q"] = gaussian(c.dtype, query_shape(c), n);
      c.inputs["K"] = gaussian(c.dtype, key_shape(c), 10 + n);
      c.inputs["V"] = gaussian(c.dtype, value_shape(c), 20 + n);
      return c;
    };
    for (std::size_t n = 0; n < results.size(); ++n) {
      threads.emplace_back([&, n] {
        try {
          for (int round = 0; round < 5; ++round) results[n] = run_case(make(n), schedule);
        } catch (const std::exception& error) {
          errors[n] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t n = 0; n < results.size(); ++n) {
      REQUIRE(errors[n].empty());
      const HostTensors alone = run_case(make(n), schedule);
      for (const auto& [name, tensor] : alone) require_same_bits(tensor, results[n].at(name));
    }
  }
}
