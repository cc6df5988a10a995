// Lazy and optimistic references change no value, whatever scores do.

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "compiler/algorithm/evaluate.h"
#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/property/rewrite_cases.h"
#include "tests/support/case_data.h"
#include "tests/support/random_algorithm.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// Votes and conditions of a program.
struct VoteCounts {
  int votes = 0, cold = 0;
};

VoteCounts votes_of(const tile::Program& program) {
  VoteCounts out;
  for (const tile::Kernel& kernel : program.kernels)
    tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
      const auto* branch = std::get_if<tile::If>(&stmt.node);
      out.votes += std::holds_alternative<tile::Vote>(stmt.node) ? 1 : 0;
      out.cold += branch && branch->cold ? 1 : 0;
    });
  return out;
}

/// Every stage from relax_rescale on against the oracle: before it nothing is lazy. The program after relax_rescale.
tile::Program require_relaxed_stages_equal(const Algorithm& algorithm, const Schedule& schedule,
                                           const Arguments& arguments, ScalarType type = ScalarType::f32) {
  const auto expected = evaluate(algorithm, arguments);
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = arguments.extents;
  options.dtype = type;
  tile::Program relaxed;
  Changes changes;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage == "relax_rescale") relaxed = program;
    if (relaxed.kernels.empty() || !changes.in(program)) return;
    require_stage_values(stage, program, algorithm, arguments, expected);
  });
  return relaxed;
}

/// How scores go along the axis.
enum class Scores { normal, peaked, growing, falling };

/// K[j] times a factor of j. Growing scores pass any bound again and again.
void shape_scores(Arguments& arguments, const Algorithm& algorithm, Scores scores) {
  if (scores == Scores::normal) return;
  DoubleTensor& k = arguments.inputs.at("K");
  const std::int64_t keys = algorithm.name == "masked_rows" ? k.shape[0] : k.shape[2];
  const std::size_t width = static_cast<std::size_t>(k.shape.back());
  for (std::size_t n = 0; n < k.values.size(); ++n) {
    const auto j = static_cast<double>(static_cast<std::int64_t>(n / width) % std::max<std::int64_t>(1, keys));
    const double place = scores == Scores::growing ? j : static_cast<double>(keys) - j;
    k.values[n] = scores == Scores::peaked ? 9 * k.values[n] : std::abs(k.values[n]) * place;
  }
  if (scores == Scores::peaked) return;
  for (double& value : arguments.inputs.at("Q").values) value = std::abs(value);
}

const std::vector<std::pair<int, int>> kRescaleShapes = {{37, 41}, {5, 33}, {33, 5}, {1, 1},
                                                         {1, 40},  {3, 0},  {0, 3},  {16, 16}};
constexpr int kRescaleBounds[][2] = {{0, 0}, {3, 6}, {30, 60}};

/// Random legal schedules with a mode, over shapes, bounds and scores. Gives the number that had one of these
/// conditions.
int require_random_rescales(const std::string& name, RescaleMode mode, int count) {
  const Algorithm algorithm = example_algorithm(name);
  int relaxed = 0;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto [sq, sk] = kRescaleShapes[static_cast<std::size_t>(seed) % kRescaleShapes.size()];
    const auto extents = small_extents(algorithm, sq, sk);
    std::optional<Schedule> schedule = random_schedule(algorithm, extents, random, 16);
    REQUIRE(schedule);
    if (schedule->rewrite != RewriteMode::online) continue;
    const auto& bounds = kRescaleBounds[random() % std::size(kRescaleBounds)];
    schedule->rescale = {mode, bounds[0], std::nullopt};
    if (mode == RescaleMode::optimistic) schedule->rescale.over = bounds[1];
    Arguments arguments = random_inputs(algorithm, extents, random);
    const auto scores = static_cast<Scores>(random() % 4);
    shape_scores(arguments, algorithm, scores);
    INFO(name << " seed " << seed << " Sq " << sq << " Sk " << sk << " scores " << static_cast<int>(scores) << "\n"
              << print_schedule(*schedule));
    try {
      const VoteCounts counts = votes_of(require_relaxed_stages_equal(algorithm, *schedule, arguments));
      CHECK(counts.votes > 0);
      relaxed += mode == RescaleMode::lazy || counts.cold > 0 ? 1 : 0;
    } catch (const UserError& refusal) {
      // One tile that covers the axis, S in shared memory, or nothing but masked tiles.
      const std::string text = refusal.what();
      const bool known = text.find("would have no effect") != std::string::npos ||
                         text.find("lives in shared memory") != std::string::npos;
      INFO(text);
      REQUIRE(known);
    }
  }
  return relaxed;
}

Algorithm masked_rows(const std::string& definitions, const std::string& outputs) {
  return parse_algorithm(
      "algorithm: masked_rows\nextents: [R, N, D, E]\ninputs: {Q: [R, D], K: [N, D], V: [N, E]}\n"
      "define:\n  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n" +
          definitions + "outputs: [" + outputs + "]\nsizes: {R: 21, N: 40, D: 3, E: 4}\n",
      "masked_rows.yaml");
}

Schedule rescale_schedule(const std::string& rewrite, const std::string& target = "sm_80") {
  return parse_schedule(
      (target == "cpu" ? "target: cpu\nO: {tile: {i: 4, j: 8}, parallel: [i.o], reorder: [i.o, j.o]}\n"
                       : "target: sm_80\nO: {tile: {i: 4, j: 8}, gpu_blocks: [i.o], reorder: [i.o, j.o], threads: [4, "
                         "8]}\n") +
          std::string("S: {compute_at: j.o, store_in: register}\nQ: {stage_at: i.o, store_in: shared}\n"
                      "K: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, store_in: shared}\nrewrite: ") +
          rewrite + "\n",
      "inline.yaml");
}

const std::string kSoftmaxOfA =
    "  - P[i,j] = softmax(j, A[i,j])\n  - O[i,e] = sum(j, P[i,j] * V[j,e])\n  - L[i] = logsumexp(j, A[i,j])\n";

}  // namespace

TEST_CASE("lazy references give the oracle's values after every pass, whatever scores do") {
  CHECK(require_random_rescales("attention", RescaleMode::lazy, 14) > 2);
  CHECK(require_random_rescales("causal_gqa", RescaleMode::lazy, 14) > 2);
  CHECK(require_random_rescales("sliding_window", RescaleMode::lazy, 14) > 2);
  CHECK(require_random_rescales("softcap_alibi", RescaleMode::lazy, 8) > 1);
  CHECK(require_random_rescales("document_mask", RescaleMode::lazy, 14) > 2);
  CHECK(require_random_rescales("sink", RescaleMode::lazy, 14) > 2);
  CHECK(require_random_rescales("entropy", RescaleMode::lazy, 14) > 2);
}

TEST_CASE("optimistic references give the oracle's values after every pass, whatever scores do") {
  CHECK(require_random_rescales("attention", RescaleMode::optimistic, 18) > 2);
  CHECK(require_random_rescales("causal_gqa", RescaleMode::optimistic, 18) > 2);
  CHECK(require_random_rescales("sliding_window", RescaleMode::optimistic, 18) > 1);
  CHECK(require_random_rescales("softcap_alibi", RescaleMode::optimistic, 18) > 2);
  CHECK(require_random_rescales("sink", RescaleMode::optimistic, 18) > 2);
  CHECK(require_random_rescales("entropy", RescaleMode::optimistic, 18) > 2);
}

TEST_CASE("rows and tiles without a visible element keep their references") {
  // Rows 0 to 12 see nothing, others from their first to some middle tile on.
  for (const std::string mask : {"j < i - 12", "j >= i - 12", "j >= 9 and j < i"}) {
    const Algorithm algorithm = masked_rows("  - A[i,j] = S[i,j] where " + mask + "\n" + kSoftmaxOfA, "O, L");
    for (const std::string mode : {"lazy, grow: 2", "optimistic, grow: 2, over: 4", "optimistic"}) {
      for (const std::string target : {"sm_80", "cpu"}) {
        INFO(mask << ", " << mode << ", " << target);
        std::mt19937 random(11);
        Arguments arguments = random_inputs(algorithm, algorithm.sizes, random);
        shape_scores(arguments, algorithm, Scores::growing);
        require_relaxed_stages_equal(algorithm, rescale_schedule("{online: {rescale: " + mode + "}}", target),
                                     arguments);
      }
    }
  }
}

TEST_CASE("scores of minus infinity in unmasked tiles break every try and no value") {
  const Algorithm algorithm = masked_rows("  - A[i,j] = S[i,j]\n" + kSoftmaxOfA, "O, L");
  for (const std::string mode : {"lazy", "optimistic", "optimistic, grow: 0, over: 0"}) {
    INFO(mode);
    std::mt19937 random(12);
    Arguments arguments = random_inputs(algorithm, algorithm.sizes, random);
    shape_scores(arguments, algorithm, Scores::growing);
    // Of the first two tiles and a part of the third.
    for (std::size_t j = 0; j < 17; ++j)
      arguments.inputs.at("K").values[3 * j] = -std::numeric_limits<double>::infinity();
    require_relaxed_stages_equal(algorithm, rescale_schedule("{online: {rescale: " + mode + "}}"), arguments);
  }
}

TEST_CASE("schedules for tensor cores take lazy and optimistic references as they are") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  for (const std::string name : {"sm80/flash2", "sm90/flash2_wgmma"})
    for (const RescaleMode mode : {RescaleMode::lazy, RescaleMode::optimistic}) {
      INFO(name << " " << name_of(mode));
      Schedule schedule = parse_schedule(shipped_schedule(name), name);
      schedule.rescale = {mode, 2, std::nullopt};
      if (mode == RescaleMode::optimistic) schedule.rescale.over = 5;
      auto extents = small_extents(algorithm, 70, 290);
      extents["D"] = extents["Dv"] = 64;
      std::mt19937 random(15);
      Arguments arguments = random_inputs(algorithm, extents, random);
      shape_scores(arguments, algorithm, Scores::peaked);
      const VoteCounts counts =
          votes_of(require_relaxed_stages_equal(algorithm, schedule, arguments, ScalarType::bf16));
      CHECK(counts.votes > 0);
      CHECK((mode == RescaleMode::lazy || counts.cold > 0));
    }
}

TEST_CASE("what a broken try would have returned is wrong, and so is a reference that never moves") {
  const Algorithm algorithm = masked_rows("  - A[i,j] = S[i,j]\n" + kSoftmaxOfA, "O, L");
  std::mt19937 random(13);
  Arguments arguments = random_inputs(algorithm, algorithm.sizes, random);
  shape_scores(arguments, algorithm, Scores::growing);
  const auto expected = evaluate(algorithm, arguments);
  const auto without = [&](const std::string& mode, bool cold) {
    tile::Program program =
        require_relaxed_stages_equal(algorithm, rescale_schedule("{online: {rescale: " + mode + "}}"), arguments);
    for (tile::Kernel& kernel : program.kernels)
      kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
        for (tile::Stmt& stmt : block)
          if (auto* branch = std::get_if<tile::If>(&stmt.node); branch && branch->cold == cold) branch->body.clear();
        return block;
      });
    return distance(tile::interpret(program, algorithm, arguments), expected);
  };
  CHECK(without("lazy", false) > 1e-3);
  CHECK(without("optimistic", true) > 1e-3);
}

TEST_CASE("worked recurrences are lazy where all their references are gauges, and have the oracle's values then") {
  int compared[2] = {0, 0};
  for (const test::WorkedCase& worked : test::worked_cases()) {
    const Algorithm algorithm = test::algorithm_of(worked);
    Sizes sizes;
    for (const Extent& extent : algorithm.extents) sizes[extent.name] = extent.name == "J" ? 31 : 5;
    for (std::uint32_t seed = 0; seed < 16; ++seed) {
      std::mt19937 random(seed);
      Arguments arguments = random_inputs(algorithm, sizes, random);
      std::optional<Schedule> schedule = random_schedule(algorithm, sizes, random, 8);
      if (!schedule || schedule->rewrite != RewriteMode::online) continue;
      const bool lazy = seed % 2 == 0;
      schedule->rescale = {lazy ? RescaleMode::lazy : RescaleMode::optimistic, 1, std::nullopt};
      if (!lazy) schedule->rescale.over = 2;
      for (double& value : arguments.inputs.begin()->second.values)
        value = worked.positive_scores ? std::abs(value) + 0.1 : 4 * value;
      INFO(worked.name << " seed " << seed << "\n" << print_schedule(*schedule));
      try {
        require_relaxed_stages_equal(algorithm, *schedule, arguments);
      } catch (const UserError&) {
        continue;
      }
      CHECK(worked.gauge.find('y') != std::string::npos);
      CHECK(worked.gauge.find('n') == std::string::npos);
      ++compared[seed % 2];
    }
  }
  CHECK(compared[0] > 30);
  CHECK(compared[1] > 0);
}

TEST_CASE("recurrences of other kinds are lazy or refused as their gauges say") {
  const auto outcome = [&](const std::string& definitions, const std::string& outputs, const std::string& mode) {
    const Algorithm algorithm = masked_rows(definitions, outputs);
    std::mt19937 random(14);
    Arguments arguments = random_inputs(algorithm, algorithm.sizes, random);
    shape_scores(arguments, algorithm, Scores::growing);
    std::string rewrite = "{online: {rescale: " + mode + "}}";
    try {
      require_relaxed_stages_equal(algorithm, rescale_schedule(rewrite), arguments);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  // log-softmax weighted sum
  const std::string log_sum =
      "  - m[i] = max(j, S[i,j])\n  - l[i] = sum(j, exp(S[i,j] - m[i]))\n"
      "  - O[i,e] = sum(j, (S[i,j] - m[i] - log(l[i])) * V[j,e])\n";
  const std::string differential =
      "  - P[i,j] = softmax(j, S[i,j])\n  - W[i,j] = softmax(j, 0.5 * S[i,j] * S[i,j] / 900)\n"
      "  - O[i,e] = sum(j, (P[i,j] - 0.3 * W[i,j]) * V[j,e])\n";
  for (const std::string mode : {"lazy, grow: 1", "optimistic, grow: 1, over: 3"}) {
    INFO(mode);
    CHECK(outcome(log_sum, "O", mode) == "accepted");
    CHECK(outcome(differential, "O", mode) == "accepted");
  }
}

TEST_CASE("random algorithms under lazy and optimistic schedules have the oracle's values, or are refused") {
  int compared[2] = {0, 0};
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    const Algorithm algorithm = random_algorithm(seed);
    const Arguments arguments = random_arguments(algorithm, seed);
    const auto mode = seed % 2 == 0 ? RescaleMode::lazy : RescaleMode::optimistic;
    INFO("seed " << seed);
    try {
      std::mt19937 random(seed);
      std::optional<Schedule> schedule = random_schedule(algorithm, arguments.extents, random, 4);
      if (!schedule || schedule->rewrite != RewriteMode::online) continue;
      schedule->rescale = {mode, static_cast<int>(random() % 3), std::nullopt};
      if (mode == RescaleMode::optimistic) schedule->rescale.over = 2 + static_cast<int>(random() % 3);
      INFO(print_algorithm(algorithm) << print_schedule(*schedule));
      const auto expected = evaluate(algorithm, arguments);
      if (!all_finite(expected)) continue;
      CompileOptions options;
      options.target = *find_target(schedule->target);
      options.sizes = arguments.extents;
      Changes changes;
      compile(algorithm, *schedule, options, [&](std::string_view stage, const tile::Program& program) {
        if (!changes.in(program)) return;
        INFO("after " << stage << ":\n" << tile::print(program));
        REQUIRE(distance(tile::interpret(program, algorithm, arguments), expected) < 1e-6);
      });
      ++compared[seed % 2];
    } catch (const UserError&) {
    }
  }
  // Few have a streaming form with references.
  CHECK(compared[0] + compared[1] > 0);
}

}  // namespace astatide::testing
