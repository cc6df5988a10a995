// The simulator: finished programs for GPUs, thread by thread. Shipped and random schedules are clean and give the
// evaluator's values; programs that lack something are found.

#include <catch2/catch.hpp>
#include <ctime>

#include "api/astatide.h"
#include "compiler/pipeline.h"
#include "compiler/sim/simulate.h"
#include "tests/support/random_draws.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/simulated.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// Of processors: what else the machine does counts for nothing.
double seconds_of(const std::function<void()>& act) {
  const std::clock_t start = std::clock();
  act();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string what_is_found(const tile::Program& program, const Arguments& arguments, int seeds) {
  for (int seed = 1; seed <= seeds; ++seed) {
    sim::Options options;
    options.seed = static_cast<std::uint64_t>(seed);
    if (const sim::Run run = sim::simulate(program, arguments, options); run.finding) return print(*run.finding);
  }
  return "";
}

}  // namespace

TEST_CASE("every shipped schedule of GPUs is clean in any order and gives the evaluator's values") {
  for (const std::string& name : gpu_schedule_names()) {
    INFO(name);
    // Several tiles of either kind, the last ones not full; the first rows see no key.
    const SimulatedCase simulated = simulated_case("causal_gqa", name, {{"Sq", 200}, {"Sk", 150}});
    const sim::Run run = sim::simulate(simulated.program, simulated.arguments, {.round_storage = false});
    INFO((run.finding ? print(*run.finding) : ""));
    REQUIRE(!run.finding);
    CHECK(distance(run.outputs, evaluate(simulated.algorithm, simulated.arguments)) < kTolerance);
  }
}

TEST_CASE("random algorithms under random schedules of GPUs are clean when they are simulated") {
  DrawOptions options;
  options.device = Device::sim();
  options.schedules = gpu_schedule_names();
  options.wanted = 9;
  options.command =
      "test_property 'random algorithms under random schedules of GPUs are clean when they are simulated'";
  check_draws(options);
}

TEST_CASE("all orders with one turn aside are clean") {
  const SimulatedCase simulated = simulated_case("attention", "sm90/flash3", {{"Sq", 16}, {"Sk", 64}});
  sim::Options options;
  options.preemptions = 1;
  options.most_runs = 25;
  const sim::Run run = sim::simulate(simulated.program, simulated.arguments, options);
  CHECK(!run.finding);
  CHECK(run.runs == options.most_runs);
  options.preemptions = 0;
  CHECK(sim::simulate(simulated.program, simulated.arguments, options).runs == 1);
}

TEST_CASE("a small kernel is simulated in under 5 seconds of a processor") {
  const SimulatedCase simulated =
      simulated_case("attention", "sm90/flash3", {{"Sq", 128}, {"Sk", 256}, {"D", 64}, {"Dv", 64}});
  CHECK(seconds_of([&] { REQUIRE(!sim::simulate(simulated.program, simulated.arguments, {}).finding); }) < 5);
}

TEST_CASE("lanes that go on before they have met are found where a slot is filled again") {
  // Blocks that take tile after tile, some with no keys: nothing stands between the acquire of Q and its release.
  const std::string text = with(shipped_schedule("sm90/flash3_plain"), "gpu_blocks: [i.o, h, b]",
                                "gpu_blocks: [i.o, h, b], persistent: linear");
  SimulatedCase simulated = simulated_case("causal_gqa", parse_schedule(text, "s.yaml"), {{"Sq", 600}, {"Sk", 20}});
  CHECK(what_is_found(simulated.program, simulated.arguments, 3).empty());
  int changed = 0;
  for (tile::Kernel& kernel : simulated.program.kernels)
    kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
      for (tile::Stmt& stmt : block)
        if (auto* release = std::get_if<tile::Release>(&stmt.node); release && release->tile == "Q_s" && release->apart)
          release->apart = false, ++changed;
      return block;
    });
  REQUIRE(changed == 1);
  CHECK_THAT(what_is_found(simulated.program, simulated.arguments, 3),
             Catch::Contains("while lanes of a warp may still wait for the one before"));
}

TEST_CASE("teams of several warps meet by themselves, and all of them where they leave their states") {
  const std::string text =
      "target: sm_80\nrewrite: {online: {rescale: optimistic}}\nO: {split: {h: [hk, g]}, fuse: {r: [g, i]}, tile: {r: "
      "32, j: 16}, rfactor: {j: [j.s, 2, j.w, 3]}, merge: last_block, reorder: [b, hk, r.o, j.s, j.w, j.o], "
      "gpu_blocks: [j.s, r.o, hk, b], threads: [16, 4]}\nS: {compute_at: j.o, mma: mma_sync}\nP: {compute_at: j.o}\n"
      "Q: {stage_at: j.w, copy: cp_async}\nK: {stage_at: j.o, copy: cp_async, ring_buffer: 2}\n"
      "V: {stage_at: j.o, copy: cp_async, ring_buffer: 2}\n";
  const SimulatedCase simulated =
      simulated_case("causal_gqa", parse_schedule(text, "s.yaml"), {{"Sq", 17}, {"Sk", 260}});
  CHECK(what_is_found(simulated.program, simulated.arguments, 3).empty());
  const sim::Run run = sim::simulate(simulated.program, simulated.arguments, {.round_storage = false});
  CHECK(distance(run.outputs, evaluate(simulated.algorithm, simulated.arguments)) < kTolerance);
  for (const bool of_team : {true, false}) {
    tile::Program changed = simulated.program;
    for (tile::Kernel& kernel : changed.kernels)
      kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
        std::erase_if(block, [&](const tile::Stmt& stmt) {
          const auto* sync = std::get_if<tile::Sync>(&stmt.node);
          return sync && sync->team == of_team;
        });
        return block;
      });
    INFO(of_team);
    CHECK_THAT(what_is_found(changed, simulated.arguments, 3), Catch::Contains(of_team ? "_s is " : "_teams is read"));
  }
}

TEST_CASE("a finding says which roles wait for each other") {
  SimulatedCase simulated = simulated_case("attention", "sm90/flash3", {{"Sq", 16}, {"Sk", 200}});
  // The consumers keep a slot of V.
  for (tile::Kernel& kernel : simulated.program.kernels)
    kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
      std::erase_if(block, [](const tile::Stmt& stmt) {
        const auto* release = std::get_if<tile::Release>(&stmt.node);
        return release && release->tile == "V_s";
      });
      return block;
    });
  const std::string found = what_is_found(simulated.program, simulated.arguments, 1);
  INFO(found);
  CHECK_THAT(found, Catch::Contains("V_s"));
}

TEST_CASE("a simulated launch checks its arguments, and fails where something is found") {
  Engine engine;
  const Algorithm algorithm = example_algorithm("attention");
  const Schedule schedule = parse_schedule(shipped_schedule("sm80/flash2"), "flash2.yaml");
  const Sizes sizes{{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 8}, {"Sk", 9}, {"D", 16}, {"Dv", 16}};
  const Executable executable = engine.build(algorithm, schedule, {Device::sim(), ScalarType::f16, sizes, {}});
  CHECK(executable.report().target == "sm_80");
  CHECK_THROWS_WITH(simulate(executable, {}), Catch::Contains("input Q[B, Hq, Sq, D] is missing"));
  const Executable other = engine.build(algorithm, {Device::cpu(), ScalarType::f32, sizes, {}});
  CHECK_THROWS_WITH(simulate(other, {}), Catch::Contains("built for cpu, not to be simulated"));
  CHECK_THROWS_WITH(engine.build(algorithm, parse_schedule(shipped_schedule("cpu/flash2"), "flash2.yaml"),
                                 {Device::sim(), ScalarType::f32, sizes, {}}),
                    Catch::Contains("no GPU to simulate is named cpu"));
}

}  // namespace astatide::testing
