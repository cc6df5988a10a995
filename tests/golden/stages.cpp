// One folder a case: schedule.yaml, and the text of each stage that examples/ALGORITHM.yaml passes through under it.
// UPDATE_GOLDENS=1 writes them anew; a missing one fails.

#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "compiler/cuda/emit.h"
#include "compiler/pipeline.h"
#include "compiler/rewrite/recurrence.h"
#include "tests/support/paths.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

/// Text of every stage, by file name.
std::map<std::string, std::string> stages_of(const std::string& algorithm_name, const std::string& schedule_text) {
  const Algorithm algorithm = example_algorithm(algorithm_name);
  const Schedule schedule = parse_schedule(schedule_text, "schedule.yaml");
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = algorithm.sizes;
  // The lengths that no kernel is compiled for are short, so that every bound allows them.
  options.sizes["Sq"] = options.sizes["Sk"] = 64;
  for (const Placement& placement : schedule.placements)
    if (placement.mma() != Family::unset) options.dtype = ScalarType::bf16;
  std::map<std::string, std::string> out;
  out["algorithm.txt"] = print_mathematics(algorithm);
  if (schedule.rewrite == RewriteMode::online)
    out["online.txt"] = print_recurrence(derive_online(find_cascade(algorithm)));
  const tile::Program last = compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& p) {
    if (stage == "lower") out["tile.txt"] = tile::print(p);
  });
  out["passes.txt"] = tile::print(last);
  return out;
}

/// The same of the kernel that merges what an algorithm gives for parts.
std::map<std::string, std::string> stages_of_merge(const std::string& algorithm_name) {
  const Algorithm algorithm = example_algorithm(algorithm_name);
  const Merge merge = derive_merge(algorithm);
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.sizes = algorithm.sizes;
  std::map<std::string, std::string> out;
  out["algorithm.txt"] = print_mathematics(merge.algorithm);
  out["online.txt"] = print_part_states(merge.recurrence, merge.states);
  const tile::Program last = compile_merge(merge, options, [&](std::string_view stage, const tile::Program& p) {
    if (stage == "lower") out["tile.txt"] = tile::print(p);
  });
  out["passes.txt"] = tile::print(last);
  out["kernel.cu"] = cuda::emit(last).text;
  return out;
}

void require_texts(const std::filesystem::path& folder, const std::map<std::string, std::string>& texts) {
  for (const auto& [file, text] : texts) {
    const std::string name = folder.filename().string();
    if (updates_goldens()) std::ofstream(folder / file, std::ios::binary) << text;
    INFO(name << "/" << file << ": UPDATE_GOLDENS=1 writes what is there now");
    REQUIRE(std::filesystem::exists(folder / file));
    CHECK(text_of(folder / file) == text);
  }
}

void require_goldens(const std::string& name, const std::string& algorithm) {
  const std::filesystem::path folder = source_path("tests/golden/" + name);
  require_texts(folder, stages_of(algorithm, text_of(folder / "schedule.yaml")));
}

}  // namespace

TEST_CASE("attention with rows outside and S in registers lowers to one loop with an advance") {
  require_goldens("attention_flash2", "attention");
}
TEST_CASE("a ring of two slots copies one tile ahead, with S in shared memory") {
  require_goldens("causal_gqa_flash2_ring", "causal_gqa");
}
TEST_CASE("with the reduced axis outside the state goes through global memory") {
  require_goldens("causal_gqa_flash1", "causal_gqa");
}
TEST_CASE("the axis in parts leaves a state for each in global memory, and a second kernel merges them") {
  require_goldens("causal_gqa_decode", "causal_gqa");
}
TEST_CASE("query heads of a group and queries are the rows of one tile") {
  require_goldens("causal_gqa_decode_gqa", "causal_gqa");
}
TEST_CASE("the last block of those that make parts of a size merges them, in one kernel") {
  require_goldens("causal_gqa_decode_last_block", "causal_gqa");
}
TEST_CASE("teams of a block leave states in its shared memory, which all of its threads merge") {
  require_goldens("causal_gqa_decode_teams", "causal_gqa");
}
TEST_CASE("outputs of parts are merged by one kernel, a row a block") {
  require_texts(source_path("tests/golden/causal_gqa_merge"), stages_of_merge("causal_gqa"));
}
TEST_CASE("a sink is taken out of each part and put in once") {
  require_texts(source_path("tests/golden/sink_merge"), stages_of_merge("sink"));
}
TEST_CASE("S and P at root make three kernels") { require_goldens("causal_gqa_standard", "causal_gqa"); }
TEST_CASE("a row of S in shared memory makes one kernel of several passes") {
  require_goldens("causal_gqa_fused_row", "causal_gqa");
}
TEST_CASE("a window leaves partial tiles at both ends of the full ones") {
  require_goldens("sliding_window_flash2", "sliding_window");
}
TEST_CASE("two sums that others move with are whole in every iteration") {
  require_goldens("variance_cpu", "variance");
}
TEST_CASE("on tensor cores P goes from an accumulator to an operand, and copies run one tile ahead") {
  require_goldens("causal_gqa_mma_sync", "causal_gqa");
}
TEST_CASE("a producer and its consumers share rings and nothing else") {
  require_goldens("causal_gqa_flash3", "causal_gqa");
}
TEST_CASE("consumers take turns from the last product of a tile to the first of the next") {
  require_goldens("causal_gqa_flash3_turns", "causal_gqa");
}
TEST_CASE("consumers wait for the delayed product between two halves of the weights, a producer copies in that order") {
  require_goldens("causal_gqa_flash3_overlap", "causal_gqa");
}
TEST_CASE("blocks that stay take long tiles first, and delay what an optimistic reference moves") {
  require_goldens("causal_gqa_flash3_persistent", "causal_gqa");
}
TEST_CASE("consumers round their output to a slot in shared memory, which TMA stores") {
  require_goldens("causal_gqa_flash3_tma_store", "causal_gqa");
}
TEST_CASE("the next tile's scores run ahead, the last product one tile behind") {
  require_goldens("causal_gqa_overlap", "causal_gqa");
}
TEST_CASE("a lazy reference moves under the flag of a vote") {
  require_goldens("causal_gqa_flash2_lazy", "causal_gqa");
}
TEST_CASE("an optimistic reference is looked for where the sum of a full tile is too large") {
  require_goldens("causal_gqa_flash2_optimistic", "causal_gqa");
}
TEST_CASE("a warp that computes a tile of wgmma again does it by mma_sync, and gives its slot back behind that") {
  require_goldens("causal_gqa_flash3_optimistic", "causal_gqa");
}
TEST_CASE("a tile that covers the whole axis needs no rescale") { require_goldens("one_tile_flash2", "attention"); }

}  // namespace astatide::testing
