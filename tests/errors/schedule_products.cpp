#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"

// Tensor cores, asynchronous copies and roles: what a target, a tile or a type can't do is refused with the nearest
// form that is legal.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kMmaSync = R"(target: sm_80
rewrite: online
O: {tile: {i: 128, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [32, 4]}
S: {compute_at: j.o, store_in: register, mma: mma_sync}
P: {compute_at: j.o, store_in: register}
Q: {stage_at: i.o, store_in: shared, copy: cp_async}
K: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}
V: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}
)";

const std::string kRoles = R"(target: sm_90a
rewrite: online
warps: {producer: 1, consumer: 2}
O: {tile: {i: 128, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]}
S: {compute_at: j.o, store_in: register, mma: wgmma}
P: {compute_at: j.o, store_in: register}
Q: {stage_at: i.o, store_in: shared, copy: tma}
K: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}
V: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}
)";

std::string verdict(const std::string& schedule, ScalarType type = ScalarType::bf16) {
  return Request{.schedule = schedule, .type = type}.message();
}

TEST_CASE("the schedules that these tests change are legal") {
  CHECK(verdict(kMmaSync) == "");
  CHECK(verdict(kRoles) == "");
  CHECK(verdict(kRoles, ScalarType::f16) == "");
}

TEST_CASE("N18: tensor cores refuse f32, which they would round to TF32, and say what takes it") {
  // triton-lang/triton#1671: products lost 13 bits without a word.
  CHECK(verdict(kMmaSync, ScalarType::f32) ==
        R"(s.yaml:4:47: error: mma of S: Q is f32, mma_sync reads f16 or bf16
    S: {compute_at: j.o, store_in: register, mma: mma_sync}
                                                  ^
note: --dtype bf16, or mma: fma, or tf32: true, which rounds f32 to tf32
)");
  CHECK_THAT(
      verdict(kRoles, ScalarType::f32),
      Contains("s.yaml:5:47: error: mma of S: Q is f32, wgmma reads f16 or bf16") &&
          Contains("note: --dtype bf16, or mma: fma, or mma: mma_sync and tf32: true, which rounds f32 to tf32"));
  // Nor where one input alone is f32.
  for (const std::string& name : testing::tensor_core_schedule_names()) {
    INFO(name);
    Algorithm algorithm = testing::example_algorithm("causal_gqa");
    for (Input& input : algorithm.inputs)
      if (input.name == "K") input.dtype = ScalarType::f32;
    const std::string outcome = testing::outcome_of_compile(
        algorithm, parse_schedule(testing::shipped_schedule(name), "s.yaml"), ScalarType::bf16);
    CHECK_THAT(outcome, Contains("mma of S: K is f32") &&
                            Contains(testing::takes_f32(name) ? "another operand of the kernel bf16, one instruction"
                                                              : "reads f16 or bf16"));
  }
}

TEST_CASE("operands of wgmma have no padding") {
  CHECK_THAT(verdict(with(kRoles, "K: {", "K: {align_storage: {d: 72}, "), ScalarType::bf16),
             Contains("align_storage of K: wgmma reads K from rows of 128 bytes, between which nothing lies") &&
                 Contains("note: leave it out"));
}

TEST_CASE("rows that mma_sync reads begin at multiples of 16 bytes") {
  const auto padded = [](const char* multiple) {
    return verdict(with(kMmaSync, "V: {", "V: {align_storage: {e: " + std::string(multiple) + "}, "), ScalarType::bf16);
  };
  CHECK_THAT(padded("20"), Contains("align_storage of V: mma_sync reads rows that begin at multiples of 16 bytes, 8 "
                                    "elements, and 20 is no multiple of it") &&
                               Contains("note: align_storage: {e: 24}"));
  CHECK(padded("72") == "");
}

TEST_CASE("weights that nothing bounds are refused in f16 where their sum divides at the end") {
  const Algorithm algorithm = testing::example_algorithm("linear_attention");
  const auto outcome = [&](const std::string& schedule, ScalarType type) {
    return testing::outcome_of_compile(algorithm, parse_schedule(schedule, "s.yaml"), type);
  };
  CHECK_THAT(
      outcome(kMmaSync, ScalarType::f16),
      Contains("products round A * A to f16, which ends at 65504, and nothing bounds it before Z divides the sums") &&
          Contains("note: inputs of bf16, which has the range of f32"));
  CHECK(outcome(kMmaSync, ScalarType::bf16) == "accepted");
  CHECK(outcome(testing::shipped_schedule("simt/flash2"), ScalarType::f16) == "accepted");
  // Relative to a maximum, or bounded by themselves, whatever scales them.
  for (const char* name : {"causal_gqa", "sigmoid_attention", "sink", "softcap_alibi"})
    CHECK(testing::outcome_of_compile(testing::example_algorithm(name), parse_schedule(kMmaSync, "s.yaml"),
                                      ScalarType::f16) == "accepted");
}

TEST_CASE("tf32 stands beside the mma_sync that it changes") {
  const std::string tf32 = with(kMmaSync, "mma: mma_sync", "mma: mma_sync, tf32: true");
  for (const ScalarType type : {ScalarType::f32, ScalarType::f16, ScalarType::bf16}) CHECK(verdict(tf32, type) == "");
  CHECK_THAT(verdict(tf32, ScalarType::f64), Contains("Q is f64, mma_sync reads f16 or bf16"));
  CHECK_THAT(verdict(with(kMmaSync, ", mma: mma_sync", ", tf32: true"), ScalarType::f32),
             Contains(R"(s.yaml:4:48: error: tf32 of S: it says how mma_sync takes f32, and S has no mma
    S: {compute_at: j.o, store_in: register, tf32: true}
                                                   ^
note: mma: mma_sync beside it
)"));
  CHECK_THAT(verdict(with(kMmaSync, "mma: mma_sync", "mma: fma, tf32: true"), ScalarType::f32),
             Contains("tf32 of S: fma computes f32 as it is, it would have no effect"));
  CHECK_THAT(verdict(with(kRoles, "mma: wgmma", "mma: wgmma, tf32: true"), ScalarType::f32),
             Contains("tf32 of S: wgmma reads tf32 only where the summed axis is contiguous") &&
                 Contains("note: mma: mma_sync, with threads in place of warps"));
  CHECK_THAT(
      verdict(with(testing::shipped_schedule("cpu/flash2"), "S: {compute_at: j.o", "S: {tf32: true, compute_at: j.o"),
              ScalarType::f32),
      Contains("tf32 of S: the CPU has no tensor cores and computes f32 as it is"));
  CHECK_THROWS_WITH(parse_schedule(with(tf32, "tf32: true", "tf32: false"), "s.yaml"),
                    Contains("tf32 of S: false would have no effect"));
}

TEST_CASE("only a left operand that a loop of tensor cores reads again is held in registers") {
  const auto held = [](const std::string& text, const std::string& name) {
    const std::string from = name + (name == "Q" ? ": {stage_at: i.o" : ": {stage_at: j.o") + ", store_in: shared";
    return with(text, from, from.substr(0, from.size() - 6) + "[shared, register]");
  };
  CHECK(verdict(held(kMmaSync, "Q")) == "");
  CHECK(verdict(held(kRoles, "Q")) == "");
  CHECK(
      verdict(held(kMmaSync, "K")) ==
      R"(s.yaml:7:30: error: store_in of K: [shared, register]: K varies along j, so it is the right operand of a product, which tensor cores read from shared memory
    K: {stage_at: j.o, store_in: [shared, register], copy: cp_async, ring_buffer: 2}
                                 ^
note: store_in: shared
)");
  CHECK_THAT(verdict(with(held(kMmaSync, "Q"), "Q: {stage_at: i.o", "Q: {stage_at: j.o")),
             Contains("store_in of Q: [shared, register]: at j.o each tile is read once, it would have no effect"));
  CHECK_THAT(verdict(with(held(kMmaSync, "Q"), ", mma: mma_sync", ""), ScalarType::f32),
             Contains("multiply-adds read their operands from shared memory") &&
                 Contains("note: store_in: shared, or mma: mma_sync"));
  CHECK_THAT(verdict(with(kMmaSync, "P: {compute_at: j.o, store_in: register",
                          "P: {compute_at: j.o, store_in: [shared, register]")),
             Contains("P is computed, only a staged input is copied from one to the other"));
  CHECK_THAT(verdict(with(testing::shipped_schedule("cpu/flash2"), "Q: {stage_at: i.o, store_in: shared",
                          "Q: {stage_at: i.o, store_in: [shared, register]"),
                     ScalarType::f32),
             Contains("[shared, register]: it would have no effect on cpu"));
  for (const char* list : {"[register, shared]", "[shared]", "[shared, shared]", "[]"})
    CHECK_THROWS_WITH(parse_schedule(with(held(kMmaSync, "Q"), "[shared, register]", list), "s.yaml"),
                      Contains("store_in of Q: the one list of places is [shared, register]"));
  CHECK_THROWS_WITH(parse_schedule(with(held(kMmaSync, "Q"), "[shared, register]", "[shared, registers]"), "s.yaml"),
                    Contains("registers is no place for a tile") && Contains("did you mean register?"));
}

TEST_CASE("what is held in registers counts, and is refused with the number and the limit") {
  Request request{.schedule = with(kRoles, "Q: {stage_at: i.o, store_in: shared",
                                   "Q: {stage_at: i.o, store_in: [shared, register]"),
                  .sizes = {{"D", 256}, {"Dv", 256}},
                  .type = ScalarType::bf16};
  CHECK_THAT(request.message(),
             Contains("tiles of O need 224 registers a thread, sm_90a has 170 for each of 384 threads") &&
                 Contains("O 128x256 = 128; S 128x64 = 32; Q 128x256 = 64"));
}

TEST_CASE("S05: warps that don't cover a tile are refused before anything is compiled") {
  // tile-ai/tilelang#2537: a tile of 16 x 104 with 12 warps.
  const std::string twelve =
      with(with(kMmaSync, "{i: 128, j: 64}", "{i: 16, j: 104}"), "threads: [32, 4]", "threads: [96, 4]");
  CHECK_THAT(verdict(twelve),
             Contains("tiles of i are 16, 12 warps take 192 rows at a time") && Contains("note: tile: {i: 192}") &&
                 Contains("tiles of j are 104, one instruction sums 16 at a time") && Contains("note: tile: {j: 96}"));
  // Warpgroups of four warps and 64 rows.
  CHECK_THAT(verdict(with(kRoles, "i: 128", "i: 96")), Contains("tiles of i are 96, 8 warps take 128 rows at a time"));
  CHECK_THAT(verdict(with(kRoles, "consumer: 2", "consumer: 3")),
             Contains("tiles of i are 128, 12 warps take 192 rows at a time") && Contains("note: tile: {i: 192}"));
  CHECK_THAT(verdict(with(kRoles, "j: 64", "j: 104")), Contains("tiles of j are 104, one instruction sums 16"));
  const std::string one_role =
      with(with(testing::shipped_schedule("sm90/flash2_wgmma"), "{i: 128, j: 128}", "{i: 96, j: 128}"),
           "threads: [64, 4]", "threads: [48, 4]");
  CHECK_THAT(verdict(one_role),
             Contains("threads of O are 6 warps, a warpgroup has four") && Contains("note: threads: [64, 4]"));
}

TEST_CASE("L12: a schedule for one architecture is refused on others, with what runs there") {
  // Dao-AILab/flash-attention#1785: 'no kernel image is available' at the first launch.
  for (const char* target : {"sm_80", "sm_89", "sm_100", "sm_120"}) {
    INFO(target);
    const Request request{.schedule = kRoles, .type = ScalarType::bf16, .target = *find_target(target)};
    CHECK_THAT(request.message(),
               Contains("s.yaml:1:9: error: the schedule needs sm_90a, the target is " + std::string(target)) &&
                   Contains("mma: mma_sync and copy: cp_async of every target from sm_80 on"));
    CHECK(Request{.schedule = kMmaSync, .type = ScalarType::bf16, .target = *find_target(target)}.message() == "");
  }
}

TEST_CASE("an unknown family or copy is refused with the nearest") {
  CHECK_THAT(
      testing::parse_refusal(with(kMmaSync, "mma: mma_sync", "mma: mma_sink")),
      Contains("mma of S: mma_sink is none, wanted is fma, mma_sync or wgmma") && Contains("did you mean mma_sync?"));
  CHECK_THAT(testing::parse_refusal(with(kMmaSync, "Q: {stage_at: i.o, store_in: shared, copy: cp_async",
                                         "Q: {stage_at: i.o, store_in: shared, copy: async")),
             Contains("copy of Q: async is none, wanted is vector, cp_async or tma"));
  CHECK_THAT(testing::parse_refusal(with(kRoles, "{producer: 1, consumer: 2}", "{producer: 1, consumers: 2}")),
             Contains("consumers is no role") && Contains("did you mean consumer?"));
  CHECK_THAT(testing::parse_refusal(with(kRoles, "{producer: 1, consumer: 2}", "{producer: 1, consumer: 5}")),
             Contains("consumer is 5, allowed are 1 to 4"));
  CHECK_THAT(testing::parse_refusal(with(kRoles, "{producer: 1, consumer: 2}", "{consumer: 2}")),
             Contains("one producer is needed"));
}

TEST_CASE("tiles and threads that no instruction divides are refused with those that it does") {
  CHECK_THAT(verdict(with(kMmaSync, "threads: [32, 4]", "threads: [16, 8]")),
             Contains("threads of O are 16 x 8, a warp of tensor cores is 8 rows of 4") &&
                 Contains("threads: [32, 4] for 4 warps"));
  CHECK_THAT(verdict(with(kMmaSync, "i: 128", "i: 96")),
             Contains("tiles of i are 96, 4 warps take 64 rows at a time") && Contains("tile: {i: 64}"));
  CHECK_THAT(verdict(with(kMmaSync, "j: 64", "j: 40")),
             Contains("tiles of j are 40, one instruction sums 16 at a time") && Contains("tile: {j: 32}"));
  CHECK_THAT(verdict(with(kRoles, "i: 128", "i: 64")), Contains("tiles of i are 64, 8 warps take 128 rows at a time"));
  CHECK_THAT(verdict(with(kRoles, "j: 64", "j: 272")),
             Contains("272 columns along j, one instruction makes at most 256"));
}

TEST_CASE("wgmma, TMA and roles are of sm_90a") {
  CHECK_THAT(verdict(with(kMmaSync, "mma: mma_sync", "mma: wgmma")),
             Contains("wgmma is an instruction of sm_90a, the schedule's target is sm_80"));
  CHECK_THAT(verdict(with(kMmaSync, "Q: {stage_at: i.o, store_in: shared, copy: cp_async",
                          "Q: {stage_at: i.o, store_in: shared, copy: tma")),
             Contains("copy of Q: tma is of sm_90a, the schedule's target is sm_80"));
  const std::string no_warps = with(with(kRoles, "warps: {producer: 1, consumer: 2}\n", ""), "gpu_blocks: [i.o, h, b]",
                                    "gpu_blocks: [i.o, h, b], threads: [64, 4]");
  CHECK_THAT(verdict(no_warps),
             Contains("copy of K: tma needs a producer") && Contains("warps: {producer: 1, consumer: 2}"));
  CHECK_THAT(verdict(with(kRoles, "gpu_blocks: [i.o, h, b]", "gpu_blocks: [i.o, h, b], threads: [64, 4]")),
             Contains("threads of O: warps says who computes") && Contains("leave threads out"));
  CHECK_THAT(
      verdict(with(kRoles, "Q: {stage_at: i.o, store_in: shared, copy: tma}", "Q: {stage_at: i.o, store_in: shared}")),
      Contains("a producer copies by tma, and Q is copied by vector"));
  CHECK_THAT(verdict(with(kRoles, "mma: wgmma", "mma: mma_sync")), Contains("warps: consumers compute with wgmma"));
}

TEST_CASE("what an asynchronous copy can't honour is refused") {
  CHECK_THAT(verdict(with(kMmaSync, "V: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 2}",
                          "V: {stage_at: j.o, store_in: shared, copy: cp_async, ring_buffer: 3}")),
             Contains("its ring has 3 slots and that of K 2, asynchronous copies at one loop have one depth") &&
                 Contains("K: {ring_buffer: 3}"));
  CHECK_THAT(verdict(with(kMmaSync, "Q: {stage_at: i.o, store_in: shared, copy: cp_async",
                          "Q: {stage_at: i.o, store_in: shared, vectorize: 8, copy: cp_async")),
             Contains("cp_async copies whole rows, vectorize would have no effect"));
  CHECK_THAT(verdict(with(kMmaSync, ", mma: mma_sync", "")), Contains("fma reads f32 while"));
  CHECK_THAT(
      verdict(with(kMmaSync, "P: {compute_at: j.o, store_in: register}", "P: {compute_at: j.o, store_in: shared}")),
      Contains("reads what its kernel computes from registers") && Contains("store_in: register"));
}

TEST_CASE("outputs that TMA can't store are refused, and what it stores counts as shared memory") {
  const auto stored = [](const std::string& schedule, const std::string& path) {
    return with(schedule, "gpu_blocks: [i.o, h, b]", "gpu_blocks: [i.o, h, b], copy: " + path);
  };
  CHECK(verdict(stored(kRoles, "tma")) == "");
  CHECK(verdict(stored(kRoles, "vector")) == "");
  CHECK(verdict(stored(kMmaSync, "vector")) == "");
  CHECK(verdict(stored(kRoles, "cp_async")) ==
        R"(s.yaml:4:86: error: copy of O: cp_async copies to shared memory, and the tiles of O go to global memory
    O: {tile: {i: 128, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], copy: cp_async}
                                                                                         ^
note: copy: tma, or leave it out
)");
  CHECK_THAT(verdict(stored(kMmaSync, "tma")), Contains("copy of O: tma is of sm_90a, the schedule's target is sm_80"));
  CHECK_THAT(
      verdict(stored(
          with(with(kRoles, "warps: {producer: 1, consumer: 2}\n", ""), "h, b]}", "h, b], threads: [64, 4]}"), "tma")),
      Contains("copy of O: tma needs a producer"));
  CHECK_THAT(verdict(stored(kRoles, "tma"), ScalarType::f32),
             Contains("copy of O: it is f32, tma stores tiles of f16 or bf16") &&
                 Contains("note: --dtype bf16, or leave it out"));
  CHECK_THAT(verdict(with(testing::kCpuFlash2, "parallel: [i.o, h, b]", "parallel: [i.o, h, b], copy: tma")),
             Contains("copy of O: the CPU has no asynchronous copies"));
  const std::string large = with(kRoles, "{i: 128, j: 64}", "{i: 1024, j: 64}");
  CHECK_THAT(verdict(large), !Contains("bytes of shared memory"));
  CHECK_THAT(verdict(stored(large, "tma")),
             Contains("tiles of O need 294912 bytes of shared memory, sm_90a has 232448") &&
                 Contains("O 1024x64 bf16 = 131072"));
}

TEST_CASE("outputs of one number a row, or of more axes than a tensor map has, are not for TMA") {
  const auto refusal = [](const std::string& algorithm, const std::string& schedule) -> std::string {
    try {
      check_legal(parse_schedule(schedule, "s.yaml"), parse_algorithm(algorithm, "a.yaml"), *find_target("sm_90a"),
                  {{"D", 64}, {"Dv", 64}}, ScalarType::bf16);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string rows = R"(algorithm: rows
extents: [B, Sq, Sk, D]
inputs: {Q: [B, Sq, D], K: [B, Sk, D]}
define:
  - S[b,i,j] = sum(d, Q[b,i,d] * K[b,j,d])
  - L[b,i] = logsumexp(j, S[b,i,j])
outputs: [L]
sizes: {B: 1, Sq: 8, Sk: 8, D: 64}
)";
  const std::string six_axes = R"(algorithm: six_axes
extents: [A, B, C, H, Sq, Sk, D, Dv]
inputs: {Q: [A, B, C, H, Sq, D], K: [A, B, C, H, Sk, D], V: [A, B, C, H, Sk, Dv]}
define:
  - S[a,b,c,h,i,j] = sum(d, Q[a,b,c,h,i,d] * K[a,b,c,h,j,d])
  - P[a,b,c,h,i,j] = softmax(j, S[a,b,c,h,i,j])
  - O[a,b,c,h,i,e] = sum(j, P[a,b,c,h,i,j] * V[a,b,c,h,j,e])
outputs: [O]
sizes: {A: 1, B: 1, C: 1, H: 1, Sq: 8, Sk: 8, D: 64, Dv: 64}
)";
  const std::string of_rows = R"(target: sm_90a
warps: {producer: 1, consumer: 2}
L: {tile: {i: 128, j: 64}, gpu_blocks: [i.o, b], copy: tma}
S: {compute_at: j.o, store_in: register, mma: wgmma}
Q: {stage_at: i.o, store_in: shared, copy: tma}
K: {stage_at: j.o, store_in: shared, copy: tma}
)";
  CHECK_THAT(refusal(rows, of_rows),
             Contains("copy of L: it has one number a row, tma stores tiles of rows and columns"));
  CHECK(refusal(rows, with(of_rows, "b], copy: tma", "b]")) == "");
  CHECK_THAT(refusal(six_axes, with(with(kRoles, "reorder: [b, h, i.o, j.o], ", ""), "[i.o, h, b]",
                                    "[i.o, h, c, b, a], copy: tma")),
             Contains("copy of O: it has 6 axes, a tensor map describes at most 5"));
}

TEST_CASE("blocks that stay need a producer that is ahead") {
  CHECK(verdict(with(kRoles, "h, b]}", "h, b], persistent: longest_first}")) == "");
  CHECK_THAT(
      verdict(with(kMmaSync, "threads: [32, 4]", "threads: [32, 4], persistent: linear")),
      Contains("s.yaml:3:110: error: persistent of O: without a producer nothing of the next tile would be ahead") &&
          Contains("note: warps: {producer: 1, consumer: 2}\nnote: leave persistent out"));
  // Then what is copied once an output tile may have slots, too.
  const std::string two_slots = with(kRoles, "Q: {stage_at: i.o, store_in: shared, copy: tma}",
                                     "Q: {stage_at: i.o, store_in: shared, copy: tma, ring_buffer: 2}");
  CHECK(verdict(with(two_slots, "h, b]}", "h, b], persistent: linear}")) == "");
  CHECK_THAT(verdict(two_slots), Contains("ring_buffer of Q: i.o is spread over blocks"));
  CHECK_THROWS_WITH(parse_schedule(with(kRoles, "h, b]}", "h, b], persistent: longest}"), "s.yaml"),
                    Contains("longest is none, wanted is linear or longest_first"));
}

TEST_CASE("products on tensor cores refuse an unroll of their own") {
  CHECK_THAT(
      verdict(with(kRoles, "mma: wgmma", "mma: wgmma, unroll: {d: 2}")),
      Contains("unroll of S: wgmma unrolls its products whole, it would have no effect") && Contains("leave it out"));
}

}  // namespace
}  // namespace astatide
