#pragma once

#include <vector>

namespace astatide {

/// What rounds of two candidates say, in each of which both ran.
struct PairedTimes {
  double ratio = 1;       // of the first to the second, in the middle
  double confidence = 0;  // that the first is faster
};

/// By signs alone, so that no distribution is assumed and no outlier counts for more than one round: if both were
/// equally fast, the first would win so often or more with the probability 1 - confidence. Rounds that are equal count
/// for neither. Both have equally many samples.
PairedTimes compare_paired(const std::vector<double>& first, const std::vector<double>& second);

/// From here on the first counts as faster.
inline constexpr double kSureEnough = 0.95;

}  // namespace astatide
