// Algorithms whose outputs for parts of the keys determine those of the whole.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"

namespace astatide::testing {

/// Attention's inputs, then definitions over the scores S.
inline Algorithm over_scores(const std::string& definitions, const std::string& outputs,
                             const std::string& inputs = "") {
  const bool has_values = definitions.find("V[") != std::string::npos;
  return parse_algorithm(std::string("algorithm: over_scores\nextents: [B, Hq, Hkv, Sq, Sk, D") +
                             (has_values ? ", Dv" : "") +
                             "]\nscalars: {scale: 1/sqrt(D)}\n"
                             "inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D]" +
                             (has_values ? ", V: [B, Hkv, Sk, Dv]" : "") + inputs +
                             "}\ndefine:\n"
                             "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale\n" +
                             definitions + "outputs: [" + outputs + "]\n",
                         "over_scores.yaml");
}

struct MergeCase {
  std::string name;
  Algorithm algorithm;
};

inline std::vector<MergeCase> merge_cases() {
  const std::string value = " * V[b, h*Hkv/Hq, j, e])\n";
  const std::string softmax = "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n";
  const std::string o = "  - O[b,h,i,e] = sum(j, P[b,h,i,j]" + value;
  const std::string l = "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\n";
  return {
      {"softmax", over_scores(softmax + o + l, "O, L")},
      {"softmax in base 2", over_scores("  - M[b,h,i] = max(j, S[b,h,i,j])\n"
                                        "  - Z[b,h,i] = sum(j, exp2(S[b,h,i,j] * 2 - M[b,h,i] * 2))\n"
                                        "  - P[b,h,i,j] = exp2(S[b,h,i,j] * 2 - M[b,h,i] * 2) / Z[b,h,i]\n" +
                                            o + "  - L[b,h,i] = M[b,h,i] * 2 + log2(Z[b,h,i])\n",
                                        "O, L")},
      {"softmax with a sink",
       over_scores("  - M[b,h,i] = max(max(j, S[b,h,i,j]), sink[h])\n"
                   "  - Z[b,h,i] = sum(j, exp(S[b,h,i,j] - M[b,h,i])) + exp(sink[h] - M[b,h,i])\n"
                   "  - P[b,h,i,j] = exp(S[b,h,i,j] - M[b,h,i]) / Z[b,h,i]\n" +
                       o + "  - L[b,h,i] = M[b,h,i] + log(Z[b,h,i])\n",
                   "O, L", ", sink: [Hq]")},
      {"full states", over_scores("  - M[b,h,i] = max(j, S[b,h,i,j])\n"
                                  "  - P[b,h,i,j] = exp(S[b,h,i,j] - M[b,h,i])\n"
                                  "  - Z[b,h,i] = sum(j, P[b,h,i,j])\n" +
                                      o,
                                  "M, Z, O")},
      {"sigmoid", over_scores("  - P[b,h,i,j] = sigmoid(S[b,h,i,j])\n" + o, "O")},
      {"normalised sum", over_scores("  - A[b,h,i,j] = S[b,h,i,j] * S[b,h,i,j]\n"
                                     "  - Z[b,h,i] = sum(j, A[b,h,i,j])\n"
                                     "  - P[b,h,i,j] = A[b,h,i,j] / Z[b,h,i]\n" +
                                         o,
                                     "O, Z")},
      {"entropy", over_scores(softmax + "  - H[b,h,i] = -sum(j, P[b,h,i,j] * log(P[b,h,i,j]))\n" + l, "H, L")},
      {"moments", over_scores("  - N[b,h,i] = sum(j, 1)\n"
                              "  - M[b,h,i] = sum(j, S[b,h,i,j]) / N[b,h,i]\n"
                              "  - W[b,h,i] = sum(j, (S[b,h,i,j] - M[b,h,i]) * (S[b,h,i,j] - M[b,h,i]))\n",
                              "N, M, W")},
  };
}

}  // namespace astatide::testing
