// Programs are equal where every part of them is, and what a pass left equal is asked only what holds from then on.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

std::map<std::string, tile::Program> stages_of(const std::string& schedule, ScalarType dtype) {
  std::map<std::string, tile::Program> stages;
  const Schedule parsed = parse_schedule(shipped_schedule(schedule), schedule);
  compile(example_algorithm("causal_gqa"), parsed, {*find_target(parsed.target), {{"D", 64}, {"Dv", 64}}, dtype},
          [&](std::string_view stage, const tile::Program& program) { stages.emplace(stage, program); });
  return stages;
}

}  // namespace

TEST_CASE("programs that are compiled twice are equal, and unequal where their text differs") {
  const auto stages = stages_of("simt/flash2", ScalarType::f32), again = stages_of("simt/flash2", ScalarType::f32);
  int unequal = 0;
  for (const auto& [stage, program] : stages) {
    INFO(stage);
    CHECK(program == again.at(stage));
    for (const auto& [other, changed] : stages) {
      if (tile::print(program) == tile::print(changed)) continue;
      INFO(other);
      CHECK_FALSE(program == changed);
      ++unequal;
    }
  }
  CHECK(unequal > 0);
}

TEST_CASE("one number, name, expression or statement makes a program another") {
  const tile::Program program = stages_of("sm80/flash2", ScalarType::bf16).at("plan_memory");
  const auto differs = [&](const std::function<void(tile::Program&)>& change) {
    tile::Program changed = program;
    change(changed);
    return !(changed == program);
  };
  CHECK_FALSE(differs([](tile::Program&) {}));
  CHECK(differs([](tile::Program& p) { p.kernels[0].mems[0].offset += 16; }));
  CHECK(differs([](tile::Program& p) { p.kernels[0].mems[0].layout = {}; }));
  CHECK(differs([](tile::Program& p) { p.kernels[0].thread_rows *= 2; }));
  CHECK(differs([](tile::Program& p) { p.kernels[0].tiles[0].count = p.kernels[0].tiles[0].count + 1; }));
  CHECK(differs([](tile::Program& p) { p.tensors[0].monotone = true; }));
  CHECK(differs([](tile::Program& p) { p.kernels[0].body.pop_back(); }));
  // Each statement in turn, replaced by another.
  int inner = 0;
  for (std::size_t n = 0; n < tile::statement_count(program); ++n) {
    CHECK(differs([&](tile::Program& p) {
      std::size_t at = 0;
      for (tile::Kernel& kernel : p.kernels)
        kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
          for (tile::Stmt& stmt : block)
            if (at++ == n) stmt = {tile::Let{"another", Expr(1)}};
          return block;
        });
      ++inner;
    }));
  }
  CHECK(inner > 20);
}

TEST_CASE("what a pass promises is asked of a program that it has left equal, too") {
  const auto stages = stages_of("simt/flash2", ScalarType::f32);
  const tile::Program& before = stages.at("fold_units");
  tile::verify_unchanged(before, "fold_units");
  CHECK_THROWS_WITH(tile::verify_unchanged(before, "relax_rescale"), Catch::Contains("an advance is left"));
  CHECK_THROWS_WITH(tile::verify_unchanged(stages.at("overlap"), "stage_tiles"), Catch::Contains("is left"));
  CHECK_THROWS_WITH(tile::verify_unchanged(stages.at("join_loops"), "infer_layouts"), Catch::Contains("has no layout"));
  CHECK_THROWS_WITH(tile::verify_unchanged(stages.at("infer_layouts"), "plan_memory"),
                    Catch::Contains("no shared memory is asked for"));
}

}  // namespace astatide::testing
