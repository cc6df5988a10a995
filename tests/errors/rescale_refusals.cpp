// What lazy and optimistic references are refused with.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/schedule_cases.h"

namespace astatide {
namespace {

using Catch::Matchers::Contains;

std::string rescale_refusal(const std::string& definitions, const std::string& outputs, const std::string& rescale,
                            const std::string& s_space = "register", const std::string& more = "") {
  const auto uses = [&](const std::string& word) { return definitions.find(word) != std::string::npos; };
  const std::string inputs =
      std::string("Q: [R, D], K: [N, D]") + (uses("V[") ? ", V: [N, E]" : "") + (uses("G[") ? ", G: [N]" : "");
  const Algorithm algorithm = parse_algorithm(
      "algorithm: a\nextents: [R, N, D" + std::string(uses("V[") ? ", E" : "") + "]\ninputs: {" + inputs +
          "}\ndefine:\n  - S[i,j] = sum(d, Q[i,d] * K[j,d])\n" + definitions + "outputs: [" + outputs +
          "]\nsizes: {R: 9, D: 3, N: " + (more.empty() ? "20" : "8") + (uses("V[") ? ", E: 4" : "") + "}\n",
      "a.yaml");
  const std::string main = outputs.substr(0, outputs.find(','));
  const Schedule parsed =
      parse_schedule("rewrite: {online: {rescale: " + rescale + "}}\n" + more + main +
                         ": {tile: {i: 4, j: 8}, gpu_blocks: [i.o], reorder: [i.o, j.o], threads: [4, 8]}\n"
                         "S: {compute_at: j.o, store_in: " +
                         s_space + "}\nQ: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n" +
                         (uses("V[") ? "V: {stage_at: j.o, store_in: shared}\n" : ""),
                     "s.yaml");
  return testing::outcome_of_compile(algorithm, parsed, ScalarType::f32);
}

const std::string kWeightedSum = "  - P[i,j] = softmax(j, S[i,j])\n  - O[i,e] = sum(j, P[i,j] * V[j,e])\n";
const std::string kMaximumOfS = "  - m[i] = max(j, S[i,j])\n";

TEST_CASE("a maximum that an output shows can't fall behind") {
  CHECK(rescale_refusal(kMaximumOfS + "  - O[i,e] = sum(j, exp(S[i,j] - m[i]) * V[j,e])\n", "O", "lazy") ==
        R"(s.yaml:1:29: error: rescale: lazy refused: output O changes when m moves
    rewrite: {online: {rescale: lazy}}
                                ^
note: rescale: plain)");
  CHECK_THAT(
      rescale_refusal(kMaximumOfS + "  - idx[i] = min(j, select(S[i,j] == m[i], j, inf))\n", "idx", "optimistic"),
      Contains("rescale: optimistic refused: output idx changes when m moves"));
}

TEST_CASE("a sum that others are relative to changes with every tile") {
  CHECK_THAT(
      rescale_refusal("  - M[i] = sum(j, S[i,j]) / N\n  - O[i] = sum(j, (S[i,j] - M[i]) * (S[i,j] - M[i])) / N\n", "O",
                      "lazy"),
      Contains("rescale: lazy refused: M_sum is a sum, which every tile changes"));
}

TEST_CASE("powers of a maximum have no exponent that bounds them") {
  CHECK_THAT(rescale_refusal("  - a[i] = max(j, abs(S[i,j]))\n  - q[i] = sum(j, (S[i,j] / a[i]) * (S[i,j] / a[i]))\n"
                             "  - O[i] = a[i] * sqrt(q[i])\n",
                             "O", "lazy"),
             Contains("rescale: lazy refused: no exponent tells how much terms grow while a stays"));
}

TEST_CASE("where nothing moves, or one tile holds the whole axis, a rescale would have no effect") {
  CHECK_THAT(rescale_refusal("  - O[i,e] = sum(j, sigmoid(S[i,j]) * V[j,e])\n", "O", "lazy"),
             Contains("s.yaml:1:29: error: rescale: lazy would have no effect: no sum moves with a reference"));
  CHECK_THAT(rescale_refusal(kWeightedSum, "O", "optimistic", "register", "bound: {N: 8}\n"),
             Contains("rescale: optimistic would have no effect: one tile holds all of j, so no reference moves"));
}

TEST_CASE("optimistic needs a sum in which the weights show") {
  CHECK_THAT(
      rescale_refusal(kMaximumOfS +
                          "  - n[i,e] = sum(j, exp(S[i,j] - m[i]) * V[j,e])\n"
                          "  - p[i,e] = sum(j, exp(S[i,j] - m[i]) * G[j] * V[j,e])\n  - O[i,e] = n[i,e] / p[i,e]\n",
                      "O", "optimistic"),
      Contains("rescale: optimistic refused: no sum shows how large the terms get while m stays") &&
          Contains("note: rescale: lazy"));
  CHECK_THAT(rescale_refusal(
                 kMaximumOfS + "  - l[i] = sum(j, exp(S[i,j] - m[i]))\n  - q[i] = sum(j, exp(2 * S[i,j] - 2 * m[i]))\n"
                               "  - O[i] = q[i] / (l[i] * l[i])\n",
                 "O", "optimistic"),
             Contains("rescale: optimistic refused: no sum shows how large the terms get while m stays"));
}

TEST_CASE("a tile that is tried is one that a warp can compute again by itself") {
  CHECK_THAT(rescale_refusal(kWeightedSum, "O", "optimistic", "shared"),
             Contains("rescale: optimistic refused: a warp computes S again by itself, and can't where it lives in "
                      "shared memory") &&
                 Contains("note: S: {store_in: register}"));
  // Where every tile tests something none is tried.
  CHECK(rescale_refusal("  - A[i,j] = S[i,j] where G[j] > 0\n  - P[i,j] = softmax(j, A[i,j])\n"
                        "  - O[i,e] = sum(j, P[i,j] * V[j,e])\n",
                        "O", "optimistic") == "accepted");
}

TEST_CASE("on tensor cores weights of f16 may grow to 2^15") {
  const Algorithm algorithm = testing::example_algorithm("causal_gqa");
  const auto outcome = [&](const std::string& rescale, ScalarType type) -> std::string {
    const Schedule schedule =
        parse_schedule(testing::with(testing::shipped_schedule("sm90/flash2_wgmma"), "rewrite: online",
                                     "rewrite: {online: {rescale: " + rescale + "}}"),
                       "s.yaml");
    return testing::outcome_of_compile(algorithm, schedule, type);
  };
  CHECK_THAT(outcome("lazy, grow: 30", ScalarType::f16),
             Contains("grow: 30 lets weights reach 2^30, and they are rounded to f16, which ends below 2^16"));
  CHECK_THAT(outcome("optimistic, over: 60", ScalarType::f16),
             Contains("over: 60 lets weights reach 2^60, and they are rounded to f16"));
  CHECK(outcome("lazy, grow: 30", ScalarType::bf16) == "accepted");
  CHECK(outcome("optimistic", ScalarType::f16) == "accepted");
}

}  // namespace
}  // namespace astatide
