// Outputs that don't determine a state are refused with what stays open and what would do.
#include <catch2/catch.hpp>

#include "compiler/rewrite/derive_merge.h"
#include "tests/support/case_data.h"
#include "tests/support/merge_cases.h"

namespace astatide::testing {
namespace {

std::string refusal(const Algorithm& algorithm) {
  try {
    derive_merge(algorithm);
  } catch (const UserError& error) {
    std::string all;
    for (const Diagnostic& problem : error.diagnostics()) all += format_diagnostic(problem) + "\n";
    return all;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("O alone lacks the weight of a part") {
  CHECK(refusal(over_scores("  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
                            "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])\n",
                            "O")) ==
        "over_scores.yaml:8:5: error: parts can't be merged from O: m = max(j, S) of a part can't be had from it\n"
        "      - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])\n"
        "        ^\n"
        "note: an output that is m + log(l) would do, with l = sum(j, P); logsumexp is of this form\n");
}

TEST_CASE("an entropy without its sum lacks the weight of a part") {
  CHECK_THAT(refusal(over_scores("  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
                                 "  - H[b,h,i] = -sum(j, P[b,h,i,j] * log(P[b,h,i,j]))\n",
                                 "H")),
             Catch::Contains("error: parts can't be merged from H: m = max(j, S) of a part can't be had from it") &&
                 Catch::Contains("note: an output that is m + log(l) would do, with l = sum(j, P); logsumexp is"));
}

TEST_CASE("a normalised sum lacks its divisor") {
  CHECK_THAT(refusal(example_algorithm("linear_attention")),
             Catch::Contains("parts can't be merged from O: Z = sum(j, P) and O_acc = sum(j, P * V[b, h*Hkv/Hq, j, e]) "
                             "of a part can't be had from it") &&
                 Catch::Contains("note: an output that is Z would do\n"));
}

TEST_CASE("a difference of two attentions lacks both") {
  CHECK_THAT(refusal(example_algorithm("differential")),
             Catch::Contains("parts can't be merged from O: m = max(j, S), m_2 = max(j, S2), ") &&
                 Catch::Contains("note: an output that is m + log(l) would help, with l = sum(j, P)") &&
                 Catch::Contains("note: an output that is m_2 + log(l_2) would help, with l_2 = sum(j, P2)") &&
                 Catch::Contains("note: an output that is O1_acc / l would help"));
}

TEST_CASE("a mean over the length of the axis is one in a part and another in the whole") {
  CHECK(refusal(example_algorithm("variance")) ==
        "examples/variance.yaml:8:5: error: output M reads Sk, the length of j, which is one in a part and another in "
        "the whole\n"
        "      - M[b,h,i]   = sum(j, S[b,h,i,j]) / Sk\n"
        "        ^\n"
        "note: count it: n = sum(j, 1), and make that an output too\n");
}

TEST_CASE("what does not stream has no merge") {
  CHECK_THAT(refusal(over_scores("  - M[b,h,i] = max(j, S[b,h,i,j])\n"
                                 "  - O[b,h,i,e] = sum(j, sigmoid(S[b,h,i,j] - M[b,h,i]) * V[b, h*Hkv/Hq, j, e])\n",
                                 "O")),
             Catch::Contains("no streaming form"));
}

}  // namespace astatide::testing
