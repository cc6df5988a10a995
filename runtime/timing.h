#pragma once

#include <functional>
#include <vector>

#include "runtime/stream.h"

namespace astatide::runtime {

struct TimingOptions {
  int warmup = 3;        // launches that are not counted
  int repetitions = 20;  // launches that are
  /// Overwrites a buffer of twice the L2 cache before each launch, so that every launch finds its inputs in device
  /// memory.
  bool flush_l2 = false;
};

/// Milliseconds of device time.
struct Timing {
  double median_ms = 0;
  double min_ms = 0;
  std::vector<double> samples_ms;  // in the order of the launches
};

/// Median (of an even number, the mean of the middle two) and least of `samples_ms`, which isn't empty.
Timing summarize_samples(std::vector<double> samples_ms);

/// Times `launch`, which puts its work into `stream`, with a pair of events around each repetition.
Timing time_launches(const Stream& stream, const TimingOptions& options, const std::function<void()>& launch);

}  // namespace astatide::runtime
