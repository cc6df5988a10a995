#include "api/paired.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "runtime/timing.h"

namespace astatide {

PairedTimes compare_paired(const std::vector<double>& first, const std::vector<double>& second) {
  if (first.size() != second.size() || first.empty()) throw InternalError("a comparison of unequal samples");
  std::vector<double> ratios;
  int wins = 0, rounds = 0;
  for (std::size_t n = 0; n < first.size(); ++n) {
    ratios.push_back(first[n] / second[n]);
    wins += first[n] < second[n] ? 1 : 0;
    rounds += first[n] != second[n] ? 1 : 0;
  }
  PairedTimes out;
  out.ratio = runtime::summarize_samples(ratios).median_ms;
  // P(X >= wins) of a fair coin, term by term from the largest number of heads on.
  double term = 1, tail = 0;
  for (int n = 0; n < rounds; ++n) term /= 2;
  for (int heads = rounds; heads >= wins; --heads) {
    tail += term;
    term *= static_cast<double>(heads) / (rounds - heads + 1);
  }
  out.confidence = std::clamp(1 - tail, 0.0, 1.0);
  return out;
}

}  // namespace astatide
