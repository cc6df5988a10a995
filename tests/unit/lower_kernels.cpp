// What lowering makes of a placement: kernels, loops, and where values live.

#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

struct Stages {
  std::map<std::string, tile::Program, std::less<>> programs;
  const tile::Program& after(std::string_view stage) const { return programs.find(stage)->second; }
};

Stages compiled(const Algorithm& algorithm, const std::string& schedule_text,
                std::map<std::string, std::int64_t> sizes = {}) {
  const Schedule schedule = parse_schedule(schedule_text, "schedule.yaml");
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = sizes.empty() ? algorithm.sizes : std::move(sizes);
  Stages out;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    out.programs.emplace(std::string(stage), program);
  });
  return out;
}

std::vector<std::string> kernel_names(const tile::Program& program) {
  std::vector<std::string> out;
  for (const tile::Kernel& kernel : program.kernels) out.push_back(kernel.name);
  return out;
}

template <class T>
int count(
    const tile::Program& program, const std::function<bool(const T&)>& which = [](const T&) { return true; }) {
  int out = 0;
  for (const tile::Kernel& kernel : program.kernels)
    tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
      if (const auto* s = std::get_if<T>(&stmt.node)) out += which(*s);
    });
  return out;
}

std::string flash2(int i, int j, const std::string& bound = "") {
  return "target: sm_80\n" + bound + "O: {tile: {i: " + std::to_string(i) + ", j: " + std::to_string(j) +
         "}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [4, 8]}\n"
         "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
         "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n"
         "V: {stage_at: j.o, store_in: shared}\n";
}

/// exp of a difference of references: what moves old sums.
int rescales(const tile::Program& program) {
  return count<tile::Map>(program, [](const tile::Map& map) {
    return to_string(map.value).find("m_new") != std::string::npos && map.value.is_call(Op::exp);
  });
}

}  // namespace

TEST_CASE("operands end where predicates say for all rows, and full tiles don't test it") {
  const auto lines_with_v = [](const Algorithm& algorithm) {
    const std::string text = tile::print(compiled(algorithm, flash2(8, 8)).after("split_masked_loops"));
    std::vector<std::string> out;
    for (std::size_t at = text.find("(V["); at != std::string::npos; at = text.find("(V[", at + 1)) {
      const std::size_t j = text.find("at j", at);
      out.push_back(text.substr(j, text.find(", e", j) - j));
    }
    return out;
  };
  using Lines = std::vector<std::string>;
  const auto causal_but = [](const std::string& predicate) {
    Algorithm algorithm = example_algorithm("sliding_window");
    const std::string text =
        with(print_algorithm(algorithm), "j + Left >= i + Sk - Sq and j <= i + Sk - Sq + Right", predicate);
    return parse_algorithm(text, "changed.yaml");
  };
  CHECK(lines_with_v(example_algorithm("padded")) == Lines{"at j = j_o*8", "at j = j_o*8 < min(Sk, length[b])"});
  CHECK(lines_with_v(example_algorithm("causal_gqa")) == Lines{"at j = j_o*8", "at j = j_o*8 < Sk"});
  CHECK(lines_with_v(example_algorithm("causal_top_left")) == Lines{"at j = j_o*8", "at j = j_o*8 < min(Sk, Sq)"});
  CHECK(lines_with_v(example_algorithm("sliding_window")).back() == "at j = j_o*8 < Sk");
  // Of 2 j < Left + 1 the last is (Left - 0) / 2.
  CHECK(lines_with_v(causal_but("2*j <= Left and j >= Right")).back() == "at j = j_o*8 < min(Sk, Left/2+1)");
  // An or bounds nothing, and no tile is full.
  CHECK(lines_with_v(causal_but("j < Left or j == i + Right")) == Lines{"at j = j_o*8", "at j = j_o*8 < Sk"});
}

TEST_CASE("S and P at root make exactly the kernels of scores, weights and output") {
  for (const std::string name : {"attention", "causal_gqa"}) {
    const Stages stages = compiled(example_algorithm(name), shipped_schedule("simt/standard"));
    CHECK(kernel_names(stages.after("lower")) == std::vector<std::string>{name + "_S", name + "_P", name + "_O"});
    // The weights' kernel has the reductions that L is made of.
    CHECK(tile::print(stages.after("lower").kernels[1]).find("copy L[b,h,i]") != std::string::npos);
  }
}

TEST_CASE("a row of S in shared memory makes one kernel, and no sum moves in it") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const Stages stages = compiled(algorithm, shipped_schedule("simt/fused_row"));
  REQUIRE(stages.after("lower").kernels.size() == 1);
  const tile::Mem* row = stages.after("lower").kernels[0].find("S_row");
  REQUIRE(row);
  CHECK(row->space == Space::shared);
  CHECK(row->extent_of("j") == stages.after("lower").bounds.at("Sk"));
  CHECK(count<tile::Advance>(stages.after("lower")) == 0);
  CHECK(count<tile::Mma>(stages.after("lower")) == 2);
}

TEST_CASE("state lives in global memory only where loops over rows lie inside the loop that carries it") {
  const Algorithm algorithm = example_algorithm("attention");
  const auto scratch = [&](const std::string& schedule) {
    int out = 0;
    const Stages stages = compiled(algorithm, shipped_schedule(schedule));
    for (const tile::Tensor& tensor : stages.after("lower").tensors) out += tensor.role == tile::Tensor::Role::scratch;
    return out;
  };
  CHECK(scratch("simt/flash1") == 3);
  CHECK(scratch("simt/flash2") == 0);
}

TEST_CASE(
    "of an axis in parts one kernel stores states, and another merges references first, then what moves with them") {
  const Stages stages = compiled(example_algorithm("causal_gqa"), shipped_schedule("simt/decode"));
  const tile::Program& lowered = stages.after("lower");
  CHECK(kernel_names(lowered) == std::vector<std::string>{"causal_gqa_parts", "causal_gqa_merge"});
  for (const char* name : {"m_parts", "l_parts", "O_acc_parts"}) {
    const tile::Tensor* states = lowered.find_tensor(name);
    REQUIRE(states);
    CHECK(states->type == ScalarType::f32);
    CHECK(states->dims[3].is_constant(32));
  }
  const std::string parts = tile::print(lowered.kernels[0]), merge = tile::print(lowered.kernels[1]);
  CHECK(parts.find("copy O[") == std::string::npos);
  CHECK(parts.find("copy m_parts[b,h,i,j_s] at i = i_o*16 < Sq <- m via store") != std::string::npos);
  CHECK(merge.find("tiles(i_o: Sq, h: Hq, b: B) threads 1 x 32") != std::string::npos);
  CHECK(merge.find("  for j_s in 0 .. 32 serial unroll 16 padded\n"
                   "    copy m_part <- m_parts[b,h,i,j_s] at i = i_o absent -inf via load\n"
                   "    map m = max(m, m_part)\n"
                   "  for j_s in 0 .. 32 serial unroll 16 padded\n") != std::string::npos);
  CHECK(merge.find("map l = l + l_part * exp(m_part - safe(m))") != std::string::npos);
  CHECK(merge.find("copy O[b,h,i,e]") != std::string::npos);
}

TEST_CASE("the last block of those that arrive runs what a second kernel would, on the states that all have stored") {
  const Stages stages = compiled(example_algorithm("causal_gqa"), with(shipped_schedule("simt/decode"), "[j.s, 32]}",
                                                                       "[j.s, auto]}, merge: last_block"));
  const tile::Program& lowered = stages.after("lower");
  REQUIRE(lowered.kernels.size() == 1);
  REQUIRE(lowered.parts);
  CHECK(lowered.parts->extent == "j_parts");
  // Whole parts for all blocks in one wave; never more than tiles, never none.
  const auto chosen = [&](std::int64_t batch, std::int64_t keys, std::int64_t resident) {
    return lowered.parts->choose({{"B", batch}, {"Hq", 8}, {"Hkv", 8}, {"Sq", 17}, {"Sk", keys}, {"D", 64}, {"Dv", 64}},
                                 resident);
  };
  CHECK(chosen(1, 8192, 132) == 8);
  CHECK(chosen(2, 8192, 132) == 4);
  CHECK(chosen(9, 8192, 132) == 1);
  CHECK(chosen(1, 130, 132) == 3);
  CHECK(chosen(1, 0, 132) == 1);
  CHECK(chosen(0, 8192, 4) == 4);
  const tile::Tensor* arrivals = lowered.find_tensor("arrivals");
  REQUIRE(arrivals);
  CHECK(arrivals->role == tile::Tensor::Role::counters);
  const std::string kernel = tile::print(lowered.kernels[0]);
  const std::size_t stored = kernel.find("copy O_acc_parts[b,h,i,j_s,e]");
  const std::size_t arrives =
      kernel.find("arrive last = last of j_parts at arrivals[b,h,i_o] for O_acc_parts, l_parts, m_parts");
  const std::size_t merges = kernel.find("copy m_part <- m_parts[b,h,i,part]");
  REQUIRE(stored != std::string::npos);
  CHECK(stored < arrives);
  REQUIRE(merges != std::string::npos);
  CHECK(arrives < merges);
  // One part is the whole: its block waits for nobody.
  const std::size_t whole = kernel.find("  if j_parts < 2 uniform block\n"), output = kernel.find("copy O[b,h,i,e]");
  REQUIRE(whole != std::string::npos);
  CHECK(whole < output);
  CHECK(output < kernel.find("  if 1 < j_parts uniform block\n", output));
  CHECK(output < stored);
}

TEST_CASE("a part with loops over rows inside its tiles keeps its running state where it leaves it") {
  const Stages stages =
      compiled(example_algorithm("attention"),
               with(with(shipped_schedule("simt/flash1"), "gpu_blocks: [h, b]", "gpu_blocks: [j.s, h, b]"),
                    "reorder: [b, h, j.o, i.o]", "rfactor: {j: [j.s, 4]}, reorder: [b, h, j.s, j.o, i.o]"));
  int scratch = 0;
  for (const tile::Tensor& tensor : stages.after("lower").tensors)
    scratch += tensor.role == tile::Tensor::Role::scratch;
  CHECK(scratch == 3);
  CHECK(tile::print(stages.after("lower").kernels[0]).find("copy m <- m_parts[b,h,i,j_s]") != std::string::npos);
}

TEST_CASE("on a 16 x 16 problem tiles of 4 x 16 rescale nothing and tiles of 4 x 4 do") {
  const Algorithm algorithm = example_algorithm("attention");
  const std::map<std::string, std::int64_t> sizes = {{"B", 1},   {"Hq", 1}, {"Hkv", 1}, {"Sq", 16},
                                                     {"Sk", 16}, {"D", 8},  {"Dv", 8}};
  const std::string bound = "bound: {Sk: 16}\n";
  const Stages one = compiled(algorithm, flash2(4, 16, bound), sizes);
  CHECK(count<tile::Advance>(one.after("fold_units")) == 0);
  CHECK(rescales(one.after("plan_memory")) == 0);
  CHECK(count<tile::Mma>(one.after("plan_memory"), [](const tile::Mma& mma) { return mma.accumulate; }) == 0);
  const Stages four = compiled(algorithm, flash2(4, 4, bound), sizes);
  CHECK(count<tile::Advance>(four.after("fold_units")) > 0);
  CHECK(rescales(four.after("plan_memory")) > 0);
}

TEST_CASE("scores 0, 0, ln 2, ln 2 in two tiles of two give the maximum ln 2, the sum 3 and the weights 1/6 and 1/3") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: worked\nextents: [R, N, D, E]\ninputs: {Q: [R, D], K: [N, D], V: [N, E]}\ndefine:\n"
      "  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n  - M[i] = max(j, S[i,j])\n  - Z[i] = sum(j, exp(S[i,j] - M[i]))\n"
      "  - P[i,j] = exp(S[i,j] - M[i]) / Z[i]\n  - O[i,e] = sum(j, P[i,j] * V[j,e])\noutputs: [O, M, Z]\n"
      "sizes: {R: 1, N: 4, D: 1, E: 4}\n",
      "worked.yaml");
  Arguments arguments;
  arguments.extents = algorithm.sizes;
  arguments.inputs["Q"] = {{1, 1}, {1}};
  arguments.inputs["K"] = {{4, 1}, {0, 0, std::log(2), std::log(2)}};
  arguments.inputs["V"] = {{4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}};
  const Stages stages =
      compiled(algorithm,
               "target: sm_80\nO: {tile: {i: 1, j: 2}, gpu_blocks: [i.o], reorder: [i.o, j.o], threads: [4, 8]}\n"
               "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
               "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, "
               "store_in: shared}\n");
  for (const auto& [stage, program] : stages.programs) {
    INFO(stage);
    const auto out = tile::interpret(program, algorithm, arguments);
    CHECK(out.at("M").values[0] == Approx(std::log(2)));
    CHECK(out.at("Z").values[0] == Approx(3));
    for (int j = 0; j < 4; ++j)
      CHECK(out.at("O").values[static_cast<std::size_t>(j)] == Approx(j < 2 ? 1.0 / 6 : 1.0 / 3));
  }
}

TEST_CASE("a softmax of one tile at a time is refused without the rewrite") {
  const Algorithm algorithm = example_algorithm("attention");
  CHECK_THROWS_WITH(compiled(algorithm, "rewrite: none\n" + flash2(16, 16)),
                    Catch::Contains("per-tile reduction without the rewrite"));
}

TEST_CASE("an axis that tiles cover whole needs its length when the kernel is compiled") {
  const Algorithm algorithm = example_algorithm("attention");
  CHECK_THROWS_AS(compiled(algorithm, flash2(16, 16), {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 16}, {"Sk", 16}}),
                  UserError);
}

TEST_CASE("a loop over the axis that is read again before it ends is refused where two levels of sums move") {
  // The variance of the scores under their own weights moves with the running mean, which moves with the maximum.
  const Algorithm algorithm = parse_algorithm(
      "algorithm: nested\nextents: [R, N, D]\ninputs: {Q: [R, D], K: [N, D]}\ndefine:\n"
      "  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n  - P[i,j] = softmax(j, S[i,j])\n  - T[i] = sum(j, P[i,j] * S[i,j])\n"
      "  - O[i] = sum(j, P[i,j] * (S[i,j] - T[i]) * (S[i,j] - T[i]))\noutputs: [O]\nsizes: {R: 4, N: 9, D: 3}\n",
      "nested.yaml");
  const std::string schedule =
      "target: sm_80\nO: {tile: {i: 4, j: 4}, gpu_blocks: [i.o], reorder: [i.o, j.o], threads: [4, 8]}\n"
      "S: {compute_at: j.o, store_in: register}\nQ: {stage_at: i.o, store_in: shared}\n"
      "K: {stage_at: j.o, store_in: shared}\n";
  CHECK_THROWS_WITH(compiled(algorithm, schedule), Catch::Contains("one level of references can be lowered, not two"));
}

TEST_CASE("inputs of half precision are staged as f32, and outputs beyond the rows have the inputs' type") {
  const Algorithm algorithm = example_algorithm("attention");
  const Schedule schedule = parse_schedule(shipped_schedule("simt/flash2"), "flash2");
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = algorithm.sizes;
  options.dtype = ScalarType::bf16;
  const tile::Program program = compile(algorithm, schedule, options);
  CHECK(program.find_tensor("O")->type == ScalarType::bf16);
  CHECK(program.find_tensor("L")->type == ScalarType::f32);
  CHECK(program.kernels[0].find("K_s")->type == ScalarType::f32);
}

}  // namespace astatide::testing
