// An axis in parts has the algorithm's values whatever recurrence is merged: at every stage, and as machine code. Also
// where parts have no tiles, or none that a row sees.

#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

struct PartForm {
  std::string parts = "3";
  std::string rescale = "plain";
  std::string score = "";  // more directives of S
  std::string order = "reorder: [b, h, i.o, j.s, j.o], gpu_blocks: [j.s, i.o, h, b]";
  std::string q_at = "j.s", inner = "j.o";
  bool by_last_block = false;
};

const std::string kTeams = "reorder: [b, h, i.o, j.s, j.w, j.o], gpu_blocks: [j.s, i.o, h, b]";

const std::vector<PartForm> kPartForms = {
    {.parts = "3"},
    {.parts = "9", .score = ", overlap: {cover: 1/2}"},
    {.parts = "2", .rescale = "lazy, grow: 2"},
    {.parts = "4", .rescale = "optimistic, grow: 1, over: 3", .score = ", overlap: {cover: 1/4}"},
    {.parts = "3", .by_last_block = true},
    {.parts = "auto", .score = ", overlap: {cover: 1/2}", .by_last_block = true},
    {.parts = "{split_size: 12}", .rescale = "optimistic, grow: 1, over: 3", .by_last_block = true},
    {.parts = "{split_size: 36}"},
    {.parts = "auto", .rescale = "lazy, grow: 2"},
    {.parts = "5", .order = "reorder: [j.s, b, h, i.o, j.o], gpu_blocks: [i.o, h, b, j.s]", .q_at = "i.o"},
    {.parts = "4",
     .order = "reorder: [j.s, b, h, i.o, j.o], gpu_blocks: [b, j.s]",
     .q_at = "i.o",
     .by_last_block = true},
    {.parts = "3",
     .order = "reorder: [b, j.s, h, i.o, j.o], gpu_blocks: [h, j.s, b], descending: [j.o]",
     .q_at = "i.o"},
    {.parts = "3", .order = "reorder: [b, h, j.s, j.o, i.o], gpu_blocks: [j.s, h, b]", .q_at = "i.o", .inner = "i.o"},
    {.parts = "{split_size: 24}",
     .order = "reorder: [b, h, j.s, j.o, i.o], gpu_blocks: [j.s, h, b]",
     .q_at = "i.o",
     .inner = "i.o",
     .by_last_block = true},
    {.parts = "3, j.w, 2", .order = kTeams, .q_at = "j.w"},
    {.parts = "auto, j.w, 4", .order = kTeams, .q_at = "j.w", .by_last_block = true},
    {.parts = "2, j.w, 3",
     .rescale = "optimistic, grow: 1, over: 3",
     .order = kTeams + ", descending: [j.o]",
     .q_at = "j.w"},
    {.parts = "{split_size: 36}, j.w, 3",
     .rescale = "lazy, grow: 2",
     .score = ", overlap: {cover: 1/2}",
     .order = kTeams,
     .q_at = "j.w",
     .by_last_block = true}};

/// Tiles of 4 rows and 12 columns, without what the algorithm has not.
Schedule in_parts(const Algorithm& algorithm, const PartForm& form) {
  Schedule out = parse_schedule(
      "target: sm_80\nrewrite: {online: {rescale: " + form.rescale +
          "}}\nO: {tile: {i: 4, j: 12}, rfactor: {j: [j.s, " + form.parts + "]}, " +
          (form.by_last_block ? "merge: last_block, " : "") + form.order +
          ", threads: [8, 4]}\nS: {compute_at: " + form.inner + ", store_in: register" + form.score +
          "}\nP: {compute_at: " + form.inner + ", store_in: shared}\nQ: {stage_at: " + form.q_at +
          ", store_in: shared}\nK: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, store_in: shared}\n",
      "parts.yaml");
  return without_foreign_names(std::move(out), algorithm);
}

/// No key, one tile, more tiles than parts and fewer, ragged; one query; rows that see nothing.
const std::vector<std::pair<int, int>> kPartShapes = {{5, 0},  {1, 1},  {1, 100}, {9, 13}, {7, 41},
                                                      {3, 60}, {41, 7}, {30, 13}, {0, 20}};

void require_parts(const std::string& name, const std::vector<PartForm>& forms) {
  const Algorithm algorithm = example_algorithm(name);
  std::uint32_t turn = 0;
  for (const PartForm& form : forms) {
    ++turn;
    for (const auto& [sq, sk] : kPartShapes) {
      // Each shape under some of the forms, and each form at some of the shapes.
      if (++turn % 7 != 0) continue;
      std::mt19937 random(turn);
      const Schedule schedule = in_parts(algorithm, form);
      const auto extents = small_extents(algorithm, sq, sk);
      const Arguments arguments = random_inputs(algorithm, extents, random);
      const auto expected = evaluate(algorithm, arguments);
      INFO(name << " Sq " << sq << " Sk " << sk << "\n" << print_schedule(schedule));
      CompileOptions options;
      options.target = *find_target("sm_80");
      options.sizes = extents;
      Changes changes;
      compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
        if (changes.in(program)) require_stage_values(stage, program, algorithm, arguments, expected);
      });
    }
  }
}

std::vector<PartForm> plain_forms() {
  std::vector<PartForm> out;
  for (const PartForm& form : kPartForms)
    if (form.rescale == "plain" && form.score.empty()) out.push_back(form);
  return out;
}

}  // namespace

TEST_CASE("every stage of attention in parts has the oracle's values") { require_parts("attention", kPartForms); }
TEST_CASE("every stage of causal attention in parts has the oracle's values") {
  require_parts("causal_gqa", kPartForms);
}
TEST_CASE("every stage of a sliding window in parts has the oracle's values") {
  require_parts("sliding_window", kPartForms);
}
TEST_CASE("every stage of attention with a sink in parts has the oracle's values") {
  require_parts("sink", kPartForms);
}
TEST_CASE("every stage of other recurrences in parts has the oracle's values") {
  for (const char* name :
       {"entropy", "variance", "sigmoid_attention", "linear_attention", "softcap_alibi", "document_mask", "prefix_lm"})
    require_parts(name, plain_forms());
}

TEST_CASE("parts of an algorithm without rows are merged by one block") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: whole\nextents: [N]\ninputs: {X: [N]}\ndefine:\n  - M[] = max(j, X[j])\n"
      "  - L[] = logsumexp(j, X[j])\noutputs: [L, M]\n",
      "whole.yaml");
  for (const char* text :
       {"target: cpu\nL: {tile: {j: 16}, rfactor: {j: [j.s, 4]}, parallel: [j.s]}\n",
        "target: cpu\nL: {tile: {j: 16}, rfactor: {j: [j.s, auto]}, merge: last_block, parallel: [j.s]}\n",
        "target: sm_80\nL: {tile: {j: 64}, rfactor: {j: [j.s, {split_size: 64}]}, merge: last_block, "
        "gpu_blocks: [j.s], threads: [2, 32]}\n",
        "target: sm_80\nL: {tile: {j: 64}, rfactor: {j: [j.s, 3]}, gpu_blocks: [j.s], threads: [1, 32]}\n",
        "target: sm_80\nL: {tile: {j: 64}, rfactor: {j: [j.s, 2, j.w, 3]}, merge: last_block, reorder: [j.s, j.w, "
        "j.o], "
        "gpu_blocks: [j.s], threads: [1, 32]}\n"})
    for (const std::int64_t length : {0, 1, 16, 300}) {
      INFO(text << "N " << length);
      std::mt19937 random(7);
      const Schedule schedule = parse_schedule(text, "s.yaml");
      const Arguments arguments = random_inputs(algorithm, {{"N", length}}, random);
      CompileOptions options;
      options.target = *find_target(schedule.target);
      options.sizes = arguments.extents;
      const tile::Program program = compile(algorithm, schedule, options);
      CHECK(distance(tile::interpret(program, algorithm, arguments), evaluate(algorithm, arguments)) < kTolerance);
    }
}

namespace {

/// What the interpreter gives a row of one batch item, and of the same item among others.
std::map<std::string, DoubleTensor> bits_of(const Algorithm& algorithm, const Schedule& schedule,
                                            const Arguments& arguments) {
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = arguments.extents;
  tile::InterpretOptions rounding;
  rounding.round_storage = true;
  Arguments all = arguments;
  all.scalars = resolve_scalars(algorithm, arguments.extents, arguments.scalars);
  return tile::interpret(compile(algorithm, schedule, options), all, rounding);
}

}  // namespace

TEST_CASE("with a split_size a row has the same bits whatever batch it is in") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  for (const PartForm& form :
       {PartForm{.parts = "{split_size: 24}"}, PartForm{.parts = "{split_size: 24}", .by_last_block = true},
        PartForm{.parts = "{split_size: 36}, j.w, 3", .order = kTeams, .q_at = "j.w"}}) {
    const Schedule schedule = in_parts(algorithm, form);
    INFO(print_schedule(schedule));
    std::mt19937 random(11);
    auto extents = small_extents(algorithm, 3, 101);
    extents["B"] = 5;
    const Arguments many = random_inputs(algorithm, extents, random);
    Arguments one = many;
    one.extents["B"] = 1;
    for (auto& [name, tensor] : one.inputs) {
      tensor.values.resize(tensor.values.size() / 5);
      tensor.shape[0] = 1;
    }
    const auto alone = bits_of(algorithm, schedule, one), among = bits_of(algorithm, schedule, many);
    for (const auto& [name, tensor] : alone) {
      const std::vector<double>& others = among.at(name).values;
      CHECK(std::equal(tensor.values.begin(), tensor.values.end(), others.begin()));
    }
  }
}

}  // namespace astatide::testing
