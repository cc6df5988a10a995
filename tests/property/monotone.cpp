// Predicates over inputs that are marked monotone: loops begin and end where a search says, full tiles test nothing,
// and every stage computes what the evaluator does.

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

Algorithm monotone_attention(const std::string& predicate, const std::string& mark = ", monotone: true") {
  return parse_algorithm(
      "algorithm: monotone\n"
      "extents: [B, H, Sq, Sk, D]\n"
      "inputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, D], at_q: {dims: [B, Sq], dtype: i32" +
          mark + "},\n  at_k: {dims: [B, Sk], dtype: i32" + mark +
          "}}\n"
          "define:\n"
          "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) where " +
          predicate +
          "\n  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n"
          "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\noutputs: [O, L]\n",
      "monotone.yaml");
}

constexpr const char* kRowsInside =
    "target: sm_80\nO: {tile: {i: 4, j: 6}, reorder: [b, h, j.o, i.o], gpu_blocks: [h, b], threads: [8, 4]}\n"
    "S: {compute_at: i.o, store_in: register}\nP: {compute_at: i.o, store_in: shared}\n"
    "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, store_in: "
    "shared}\n";
constexpr const char* kColumnsInside =
    "target: sm_80\nO: {tile: {i: 4, j: 6}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [8, 4]}\n"
    "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
    "Q: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared, ring_buffer: 2}\n"
    "V: {stage_at: j.o, store_in: shared, ring_buffer: 2}\n";

Arguments sorted_arguments(const Algorithm& algorithm, std::int64_t sq, std::int64_t sk, int values,
                           std::mt19937& random) {
  Arguments arguments = random_inputs(algorithm, {{"B", 2}, {"H", 1}, {"Sq", sq}, {"Sk", sk}, {"D", 3}}, random);
  for (const char* name : {"at_q", "at_k"}) {
    DoubleTensor& tensor = arguments.inputs.at(name);
    for (double& value : tensor.values) value = static_cast<double>(random() % static_cast<unsigned>(values)) - 1;
    for (std::int64_t b = 0; b < 2; ++b)
      std::sort(tensor.values.begin() + b * tensor.shape[1], tensor.values.begin() + (b + 1) * tensor.shape[1]);
  }
  return arguments;
}

/// The loops of a program's only kernel, as text.
std::string ranges(const tile::Program& program) {
  std::string out;
  tile::walk(program.kernels[0].body, [&](const tile::Stmt& stmt) {
    if (std::get_if<tile::Let>(&stmt.node) || std::get_if<tile::For>(&stmt.node)) out += tile::head_of(stmt) + "\n";
  });
  return out;
}

tile::Program program_after(const Algorithm& algorithm, const std::string& schedule, const std::string& stage) {
  tile::Program found;
  const Schedule value = parse_schedule(schedule, "s.yaml");
  compile(algorithm, value, {*find_target(value.target), {{"D", 3}}, ScalarType::f32},
          [&](std::string_view name, const tile::Program& program) {
            if (name == stage) found = program;
          });
  return found;
}

}  // namespace

TEST_CASE("predicates over monotone inputs bound the loops by searches, and by nothing without the mark") {
  const std::string predicate = "at_q[b,i] == at_k[b,j]";
  const std::string found = ranges(program_after(monotone_attention(predicate), kColumnsInside, "split_masked_loops"));
  INFO(found);
  CHECK(found.find("count_below(at_k[b,0], Sk, at_q[b, max(min(i_o*4, Sq-1), 0)])") != std::string::npos);
  CHECK(found.find("count_below(at_k[b,0], Sk, at_q[b, max(min(i_o*4+3, Sq-1), 0)]+1)") != std::string::npos);
  CHECK(found.find("# full") != std::string::npos);
  const std::string unmarked =
      ranges(program_after(monotone_attention(predicate, ""), kColumnsInside, "split_masked_loops"));
  CHECK(unmarked.find("count_below") == std::string::npos);
}

TEST_CASE("every stage computes what predicates over monotone inputs say") {
  std::mt19937 random(23);
  for (const char* predicate :
       {"at_q[b,i] == at_k[b,j]", "i >= 3 and at_q[b,i] <= at_k[b,j] + 9", "at_k[b,j] <= at_q[b,i]",
        "at_q[b,i] < at_k[b,j]", "at_q[b,i] == at_k[b,j] and j <= i + Sk - Sq", "2*at_k[b,j] >= at_q[b,i] - 3",
        "at_k[b,j] == 1 and at_q[b,i] >= 0", "j < 3*at_q[b,i] and at_k[b,j] < 2",
        "at_q[b,i] - 2 <= at_k[b,j] and at_k[b,j] <= at_q[b,i] + 1", "not at_k[b,j] < at_q[b,i]",
        "at_q[b,i] == at_k[b,j] or j < 2"})
    for (const char* schedule : {kColumnsInside, kRowsInside})
      for (const auto& [sq, sk] : {std::pair{17, 41}, std::pair{1, 1}, std::pair{9, 0}, std::pair{4, 6}}) {
        const Algorithm algorithm = monotone_attention(predicate);
        const Arguments arguments = sorted_arguments(algorithm, sq, sk, sq > 10 ? 6 : 3, random);
        const auto expected = evaluate(algorithm, arguments);
        const Schedule value = parse_schedule(schedule, "s.yaml");
        compile(algorithm, value, {*find_target(value.target), arguments.extents, ScalarType::f32},
                [&](std::string_view stage, const tile::Program& program) {
                  if (stage != "split_masked_loops" && stage != "plan_memory") return;
                  INFO(predicate << ", " << sq << " rows, " << sk << " columns, after " << stage << ":\n"
                                 << tile::print(program));
                  REQUIRE(distance(tile::interpret(program, algorithm, arguments), expected) < kTolerance);
                });
      }
}

}  // namespace astatide::testing
