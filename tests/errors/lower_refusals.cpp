// What lowering refuses, with the place in the algorithm's file.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/schedule_cases.h"

namespace astatide {
namespace {

std::string lower_refusal(const std::string& definitions, const std::string& schedule) {
  const Algorithm algorithm =
      parse_algorithm("algorithm: a\nextents: [R, N, D, E]\ninputs: {Q: [R, D], K: [N, D], V: [N, E]}\ndefine:\n" +
                          definitions + "outputs: [O]\nsizes: {R: 9, N: 20, D: 3, E: 4}\n",
                      "a.yaml");
  const Schedule parsed = parse_schedule(schedule, "s.yaml");
  return testing::outcome_of_compile(algorithm, parsed, ScalarType::f32);
}

std::string ragged_refusal(const std::string& schedule) {
  return testing::outcome_of_compile(testing::example_algorithm("ragged"), parse_schedule(schedule, "s.yaml"),
                                     ScalarType::bf16);
}

constexpr const char* kScores = "  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n";
const std::string kOperands = "Q: {stage_at: j.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n";
const std::string kOnline =
    "target: sm_80\nO: {tile: {i: 4, j: 8}, gpu_blocks: [i.o], reorder: [i.o, j.o], threads: [4, 8]}\n"
    "S: {compute_at: j.o, store_in: shared}\n" +
    kOperands;

}  // namespace

TEST_CASE("a factor that is no element of an input is refused with its place") {
  const std::string schedule = kOnline + "V: {stage_at: j.o, store_in: shared}\n";
  CHECK(lower_refusal(std::string(kScores) + "  - O[i,e] = sum(j, exp(S[i,j]) * exp(V[j,e]))\n", schedule) ==
        "a.yaml:6:14: error: slot O_acc: contribution does not factor into a tile over j and a (j,e) tile\n"
        "      - O[i,e] = sum(j, exp(S[i,j]) * exp(V[j,e]))\n"
        "                 ^\n"
        "note: write it as a product with one factor that varies with e");
}

TEST_CASE("an element that varies with an axis beyond the rows is refused with its place") {
  const std::string schedule =
      "target: sm_80\nO: {tile: {e: 4, j: 8}, gpu_blocks: [e.o], reorder: [e.o, j.o], threads: [4, 8]}\n"
      "S: {compute_at: j.o, store_in: shared}\n" +
      kOperands;
  CHECK(lower_refusal(std::string(kScores) + "  - O[i,e] = sum(j, S[i,j] * V[j,e] * V[j,e])\n", schedule)
            .starts_with("a.yaml:5:14: error: S varies with i, which is no row of what reduces it over j"));
}

TEST_CASE("references that move with references are refused by name") {
  const std::string text =
      lower_refusal(std::string(kScores) +
                        "  - P[i,j] = softmax(j, S[i,j])\n  - T[i] = sum(j, P[i,j] * S[i,j])\n"
                        "  - O[i,e] = sum(j, P[i,j] * (S[i,j] - T[i]) * (S[i,j] - T[i]) * V[j,e])\n",
                    kOnline + "V: {stage_at: j.o, store_in: shared}\n");
  CHECK(text.find("one level of references can be lowered, not two") != std::string::npos);
}

TEST_CASE("a loop over a ragged axis lies inside those that its length varies with") {
  CHECK(
      ragged_refusal("target: cpu\nO: {tile: {i: 8, j: 8}, reorder: [h, i.o, b, j.o], parallel: [h, i.o, b]}\n") ==
      "s.yaml:2:1: error: O: axis i is q_offset[b+1] - q_offset[b] long, which varies with b, so the loop over i lies "
      "inside one over b, one at a time\n"
      "    O: {tile: {i: 8, j: 8}, reorder: [h, i.o, b, j.o], parallel: [h, i.o, b]}\n"
      "    ^\n"
      "note: reorder with b in front of i.o, and no tile along b");
}

TEST_CASE("TMA stores no tiles of ragged axes") {
  const std::string text = ragged_refusal(testing::shipped_schedule("sm90/flash3_tma_store"));
  CHECK(
      text.find("copy of O: tma stores whole tiles, and behind the last row of an item lie rows of O that are not its "
                "own") != std::string::npos);
  CHECK(text.starts_with("s.yaml:"));
}

}  // namespace astatide
