// Whatever is overlapped, covered and staged ahead, every stage has the algorithm's values: also where a row or a whole
// tile sees nothing, and where there is no next tile.

#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

struct Form {
  std::string cover;
  int k_slots = 1, v_slots = 1;
  bool score_in_shared = false;
};

const std::vector<Form> kForms = {{"1/2"}, {"0", 1, 2}, {"1", 2, 1, true}, {"1/4", 3, 3}, {"1/3", 1, 1}};

/// Tiles of 4 rows and 12 columns, without what the algorithm has not.
Schedule overlapped(const Algorithm& algorithm, const Form& form) {
  Schedule out = parse_schedule(
      "target: sm_80\n"
      "O: {tile: {i: 4, j: 12}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [8, 4]}\n"
      "S: {compute_at: j.o, store_in: " +
          std::string(form.score_in_shared ? "shared" : "register") + ", overlap: {cover: " + form.cover +
          "}}\n"
          "P: {compute_at: j.o, store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\n"
          "K: {stage_at: j.o, store_in: shared, ring_buffer: " +
          std::to_string(form.k_slots) +
          "}\nV: {stage_at: j.o, store_in: shared, ring_buffer: " + std::to_string(form.v_slots) + "}\n",
      "overlapped.yaml");
  return without_foreign_names(std::move(out), algorithm);
}

/// No key, one, less than a tile, one tile, one more, ragged, whole tiles; rows that see nothing where there are more
/// queries than keys.
const std::vector<std::pair<int, int>> kOverlapShapes = {{5, 0},  {1, 1},  {6, 7},  {5, 12},  {9, 13},
                                                         {7, 41}, {3, 48}, {41, 7}, {30, 13}, {0, 20}};

void require_stages(const Algorithm& algorithm, const Schedule& schedule, ScalarType type, int sq, int sk,
                    std::uint32_t seed) {
  std::mt19937 random(seed);
  auto extents = small_extents(algorithm, sq, sk);
  if (type != ScalarType::f32) extents["D"] = extents["Dv"] = 16;
  const Arguments arguments = random_inputs(algorithm, extents, random);
  const auto expected = evaluate(algorithm, arguments);
  INFO(algorithm.name << " Sq " << sq << " Sk " << sk << "\n" << print_schedule(schedule));
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = extents;
  options.dtype = type;
  Changes changes;
  const tile::Program last =
      compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
        // Roles run at the same time, which the interpreter can't do.
        const tile::Stmt& end = program.kernels[0].body.back();
        if (std::holds_alternative<tile::Role>(end.node) || !changes.in(program)) return;
        require_stage_values(stage, program, algorithm, arguments, expected);
      });
  REQUIRE(tile::print(last).find("-> delayed") != std::string::npos);
}

void require_overlap(const Algorithm& algorithm) {
  // Each shape under a third of the forms, and each form at a third of the shapes.
  std::uint32_t turn = 0;
  for (const Form& form : kForms) {
    ++turn;
    for (const auto& [sq, sk] : kOverlapShapes)
      if (++turn % 3 == 0) require_stages(algorithm, overlapped(algorithm, form), ScalarType::f32, sq, sk, turn);
  }
}

}  // namespace

TEST_CASE("every stage of overlapped attention has the oracle's values") {
  require_overlap(example_algorithm("attention"));
}
TEST_CASE("every stage of overlapped causal attention with grouped heads has the oracle's values") {
  require_overlap(example_algorithm("causal_gqa"));
  require_overlap(example_algorithm("causal_top_left"));
}
TEST_CASE("every stage of an overlapped sliding window has the oracle's values") {
  require_overlap(example_algorithm("sliding_window"));
}
TEST_CASE("every stage of overlapped attention with other scores and masks has the oracle's values") {
  for (const char* name : {"softcap_alibi", "additive_bias", "document_mask", "prefix_lm"})
    require_overlap(example_algorithm(name));
}
TEST_CASE("every stage of overlapped attention with a sink has the oracle's values") {
  require_overlap(example_algorithm("sink"));
}
TEST_CASE("every stage of overlapped weights without a reference has the oracle's values") {
  require_overlap(example_algorithm("sigmoid_attention"));
  require_overlap(example_algorithm("linear_attention"));
}
TEST_CASE("every stage of overlapped attention that gives its entropy too has the oracle's values") {
  require_overlap(parse_algorithm(R"(algorithm: attention_entropy
extents: [B, Hq, Hkv, Sq, Sk, D, Dv]
scalars: {scale: 1/sqrt(D)}
inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, Dv]}
define:
  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale
  - A[b,h,i,j] = S[b,h,i,j] where j <= i + Sk - Sq
  - P[b,h,i,j] = softmax(j, A[b,h,i,j])
  - H[b,h,i] = -sum(j, P[b,h,i,j] * log(P[b,h,i,j]))
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])
outputs: [O, H]
sizes: {B: 1, Hq: 2, Hkv: 1, Sq: 32, Sk: 32, D: 8, Dv: 8}
)",
                                  "attention_entropy.yaml"));
}

namespace {

/// On tensor cores; `mma` is the family and what else stands beside it, `place` where Q is stored.
Schedule on_tensor_cores(const std::string& machine, const std::string& mma, const std::string& path, int slots,
                         const std::string& place = "shared") {
  const std::string ring = "copy: " + path + ", ring_buffer: " + std::to_string(slots) + "}\n";
  return parse_schedule(machine + "O: {tile: {i: 64, j: 16}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]" +
                            std::string(path == "tma" ? ", copy: tma" : ", threads: [32, 4]") +
                            "}\nS: {compute_at: j.o, store_in: register, mma: " + mma +
                            ", overlap: {cover: 1/2}}\nP: {compute_at: j.o, store_in: register}\n" +
                            "Q: {stage_at: i.o, store_in: " + place + ", copy: " + path +
                            "}\nK: {stage_at: j.o, store_in: shared, " + ring +
                            "V: {stage_at: j.o, store_in: shared, " + ring,
                        "tensor_cores.yaml");
}

}  // namespace

TEST_CASE("every stage of a schedule that holds Q in registers, or takes f32 as tf32, has the oracle's values") {
  const std::string held = "[shared, register]", sm80 = "target: sm_80\n", sm90 = "target: sm_90a\n";
  const Algorithm algorithm = example_algorithm("causal_gqa");
  for (const auto& [sq, sk] : {std::pair{5, 0}, {70, 41}, {3, 48}}) {
    for (const std::string path : {"vector", "cp_async"}) {
      const int slots = path == "vector" ? 1 : 2;
      for (const std::string& place : {std::string("shared"), held})
        require_stages(algorithm, on_tensor_cores(sm80, "mma_sync, tf32: true", path, slots, place), ScalarType::f32,
                       sq, sk, 5);
      require_stages(algorithm, on_tensor_cores(sm80, "mma_sync", path, slots, held), ScalarType::bf16, sq, sk, 6);
      require_stages(algorithm, on_tensor_cores(sm90, "wgmma", path, slots, held), ScalarType::bf16, sq, sk, 7);
    }
    const std::string roles = sm90 + "warps: {producer: 1, consumer: 1}\n";
    require_stages(algorithm, on_tensor_cores(roles, "wgmma", "tma", 2, held), ScalarType::bf16, sq, sk, 8);
  }
}

TEST_CASE("every stage of an overlapped schedule of tensor cores, with a producer too, has the oracle's values") {
  for (const std::string name : {"attention", "causal_gqa", "sliding_window"}) {
    const Algorithm algorithm = example_algorithm(name);
    int slots = 0;
    for (const auto& [sq, sk] : {std::pair{5, 0}, {9, 13}, {70, 41}, {41, 7}, {3, 48}}) {
      slots = slots % 3 + 1;
      for (const std::string family : {"mma_sync", "wgmma"}) {
        const std::string machine = family == "wgmma" ? "target: sm_90a\n" : "target: sm_80\n";
        require_stages(algorithm, on_tensor_cores(machine, family, slots == 1 ? "vector" : "cp_async", slots),
                       ScalarType::bf16, sq, sk, 5);
      }
      const std::string roles = "target: sm_90a\nwarps: {producer: 1, consumer: 1}\n";
      require_stages(algorithm, on_tensor_cores(roles, "wgmma", "tma", slots), ScalarType::bf16, sq, sk, 6);
    }
  }
}

TEST_CASE("every stage of overlapped blocks in clusters has the oracle's values") {
  const auto schedule = [](int blocks, const std::string& rescale) {
    return parse_schedule("target: sm_90a\nrewrite: {online: {rescale: " + rescale +
                              "}}\nwarps: {producer: 1, consumer: 1}\n"
                              "O: {tile: {i: 64, j: 32}, reorder: [b, h, i.o, j.o], descending: [j.o], "
                              "gpu_blocks: [i.o, h, b], cluster: " +
                              std::to_string(blocks) +
                              "}\nS: {compute_at: j.o, store_in: register, mma: wgmma, overlap: {cover: 1/2}}\n"
                              "P: {compute_at: j.o, store_in: register}\n"
                              "Q: {stage_at: i.o, store_in: shared, copy: tma}\n"
                              "K: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}\n"
                              "V: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}\n",
                          "cluster.yaml");
  };
  for (const std::string name : {"attention", "causal_gqa", "sliding_window"})
    for (const auto& [sq, sk] : {std::pair{5, 0}, {150, 41}, {70, 150}, {200, 7}}) {
      require_stages(example_algorithm(name), schedule(2, "optimistic"), ScalarType::bf16, sq, sk, 7);
      require_stages(example_algorithm(name), schedule(4, "plain"), ScalarType::bf16, sq, sk, 8);
    }
}

TEST_CASE("the comparison with the oracle catches a delayed product of another tile, and one that is lost") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const auto extents = small_extents(algorithm, 9, 41);
  std::mt19937 random(3);
  const Arguments arguments = random_inputs(algorithm, extents, random);
  const auto expected = evaluate(algorithm, arguments);
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.sizes = extents;
  tile::Program rotated;
  compile(algorithm, overlapped(algorithm, kForms[0]), options,
          [&](std::string_view stage, const tile::Program& program) {
            if (stage == "overlap") rotated = program;
          });
  const auto mutated = [&](const std::function<void(tile::Stmt&)>& change) {
    tile::Program program = rotated;
    program.kernels[0].body = tile::transform_blocks(program.kernels[0].body, [&](tile::Block block) {
      for (tile::Stmt& stmt : block) change(stmt);
      return block;
    });
    return distance(tile::interpret(program, algorithm, arguments), expected);
  };
  REQUIRE(mutated([](tile::Stmt&) {}) < kTolerance);
  CHECK(mutated([](tile::Stmt& stmt) {
          auto* mma = std::get_if<tile::Mma>(&stmt.node);
          if (mma && mma->token == "delayed")
            mma->rhs = std::get<tile::Mma>(tile::substitute({stmt}, {{"j_o", variable("j_o") + 1}}).front().node).rhs;
        }) > 1e-3);
  CHECK(mutated([](tile::Stmt& stmt) {
          auto* loop = std::get_if<tile::For>(&stmt.node);
          if (loop && loop->note == "last") loop->body.clear();
        }) > 1e-3);
  CHECK(mutated([](tile::Stmt& stmt) {
          auto* fill = std::get_if<tile::Fill>(&stmt.node);
          if (fill && fill->value == 1) fill->value = 2;
        }) < kTolerance);  // of a sum that is still 0
}

}  // namespace astatide::testing
