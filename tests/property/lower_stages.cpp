// Whatever legal schedule lowers an algorithm, the program has the algorithm's values, and no pass changes one.

#include <catch2/catch.hpp>
#include <random>

#include "compiler/algorithm/evaluate.h"
#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// Every stage of one compilation against the oracle.
void require_stages_equal(const Algorithm& algorithm, const Schedule& schedule, const Arguments& arguments) {
  const auto expected = evaluate(algorithm, arguments);
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = arguments.extents;
  int stages = 0;
  Changes changes;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    ++stages;
    if (changes.in(program)) require_stage_values(stage, program, algorithm, arguments, expected);
  });
  REQUIRE(stages == static_cast<int>(pass_table().size()) + 1);
}

const std::vector<std::pair<int, int>> kShapes = {{37, 41}, {5, 33}, {33, 5}, {1, 1},  {1, 40},
                                                  {40, 1},  {3, 0},  {0, 3},  {16, 16}};

void require_random_schedules(const std::string& name, int count) {
  const Algorithm algorithm = example_algorithm(name);
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto [sq, sk] = kShapes[static_cast<std::size_t>(seed) % kShapes.size()];
    const auto extents = small_extents(algorithm, sq, sk);
    const std::optional<Schedule> schedule = random_schedule(algorithm, extents, random);
    INFO(name << " seed " << seed << " Sq " << sq << " Sk " << sk);
    REQUIRE(schedule);
    INFO(print_schedule(*schedule));
    require_stages_equal(algorithm, *schedule, random_inputs(algorithm, extents, random));
  }
}

}  // namespace

TEST_CASE("an algorithm without rows is computed by one block, with no loops to spread") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: whole\nextents: [N]\ninputs: {X: [N]}\ndefine:\n  - M[] = max(j, X[j])\n"
      "  - L[] = logsumexp(j, X[j])\noutputs: [L, M]\n",
      "whole.yaml");
  for (const char* text : {"target: cpu\nL: {tile: {j: 16}}\n", "target: cpu\nrewrite: none\nL: {tile: {j: 16}}\n",
                           "target: sm_80\nL: {tile: {j: 64}, threads: [1, 32]}\n"})
    for (const std::int64_t length : {0, 1, 16, 100}) {
      INFO(text << "N " << length);
      std::mt19937 random(7);
      const std::map<std::string, std::int64_t> sizes{{"N", length}};
      require_stages_equal(algorithm, parse_schedule(text, "s.yaml"), random_inputs(algorithm, sizes, random));
    }
}

TEST_CASE("every stage of a random legal schedule of attention has the oracle's values") {
  require_random_schedules("attention", 24);
}
TEST_CASE("every stage of a random legal schedule of causal grouped attention has the oracle's values") {
  require_random_schedules("causal_gqa", 36);
}
TEST_CASE("every stage of a random legal schedule of a sliding window has the oracle's values") {
  require_random_schedules("sliding_window", 36);
}
TEST_CASE("every stage of a random legal schedule of a capped, biased score has the oracle's values") {
  require_random_schedules("softcap_alibi", 18);
}
TEST_CASE("every stage of a random legal schedule of a dense bias has the oracle's values") {
  require_random_schedules("additive_bias", 18);
}
TEST_CASE("every stage of a random legal schedule of masks that aren't affine has the oracle's values") {
  require_random_schedules("document_mask", 18);
  require_random_schedules("prefix_lm", 18);
}
TEST_CASE("every stage of a random legal schedule of weights without a reference has the oracle's values") {
  require_random_schedules("sigmoid_attention", 18);
  require_random_schedules("linear_attention", 18);
}
TEST_CASE("every stage of a random legal schedule of a sink has the oracle's values") {
  require_random_schedules("sink", 18);
}
TEST_CASE("every stage of a random legal schedule of sums that move with others has the oracle's values") {
  require_random_schedules("entropy", 18);
  require_random_schedules("variance", 18);
}

TEST_CASE("a score that an input of either sign multiplies is absent past the end") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: either_sign\nextents: [R, N, D, E]\ninputs: {Q: [R, D], K: [N, D], V: [N, E]}\ndefine:\n"
      "  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n  - O[i,e] = sum(j, exp(0.1 * S[i,j] * V[j,e]))\noutputs: [O]\n"
      "sizes: {R: 9, N: 20, D: 3, E: 4}\n",
      "either_sign.yaml");
  std::mt19937 random(5);
  const Schedule schedule = parse_schedule(
      "target: sm_80\nO: {tile: {i: 4, j: 8}, gpu_blocks: [i.o, e], reorder: [e, i.o, j.o], threads: [4, 8]}\n"
      "S: {compute_at: j.o, store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\n"
      "K: {stage_at: j.o, store_in: shared}\n",
      "either_sign.yaml");
  require_stages_equal(algorithm, schedule, random_inputs(algorithm, algorithm.sizes, random));
}

TEST_CASE("the comparison with the oracle catches a pass that drops a move, a tile or a mask") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const Schedule schedule = parse_schedule(
      "target: sm_80\nO: {tile: {i: 8, j: 8}, gpu_blocks: [i.o, h, b], reorder: [b, h, i.o, j.o], threads: [8, 8]}\n"
      "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
      "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, store_in: "
      "shared}\n",
      "inline");
  const auto extents = small_extents(algorithm, 20, 37);
  std::mt19937 random(3);
  const Arguments arguments = random_inputs(algorithm, extents, random);
  const auto expected = evaluate(algorithm, arguments);
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.sizes = extents;
  tile::Program lowered, split;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage == "lower") lowered = program;
    if (stage == "split_masked_loops") split = program;
  });
  const auto mutated = [&](tile::Program program, const std::function<void(tile::Stmt&)>& change) {
    for (tile::Kernel& kernel : program.kernels)
      kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
        for (tile::Stmt& stmt : block) change(stmt);
        return block;
      });
    try {
      return distance(tile::interpret(program, algorithm, arguments), expected);
    } catch (const InternalError&) {
      return std::numeric_limits<double>::infinity();  // the interpreter itself refuses it
    }
  };
  REQUIRE(mutated(lowered, [](tile::Stmt&) {}) < kTolerance);
  CHECK(mutated(lowered, [](tile::Stmt& stmt) {
          if (auto* advance = std::get_if<tile::Advance>(&stmt.node)) advance->moving.clear();
        }) > 1e-3);
  CHECK(mutated(lowered, [](tile::Stmt& stmt) {
          if (auto* map = std::get_if<tile::Map>(&stmt.node)) map->where_predicates.clear();
        }) > 1e-3);
  CHECK(mutated(split, [](tile::Stmt& stmt) {
          auto* loop = std::get_if<tile::For>(&stmt.node);
          if (loop && loop->note == "partial") loop->end = loop->end - 1;
        }) > 1e-3);
  CHECK(mutated(split, [](tile::Stmt& stmt) {
          auto* loop = std::get_if<tile::For>(&stmt.node);
          if (loop && loop->note == "full") loop->end = loop->end + 1;
          if (loop && loop->note == "partial") loop->begin = loop->begin + 1;
        }) > 1e-3);
}

}  // namespace astatide::testing
