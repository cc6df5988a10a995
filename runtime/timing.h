#pragma once

#include <functional>
#include <vector>

#include "runtime/stream.h"

namespace astatide::runtime {

struct TimingOptions {
  int warmup = 3;        // launches that are not counted
  int repetitions = 20;  // launches that are
  /// Overwrites a buffer of 256 MB, or of twice the L2 cache where that is more, before each launch, so that every
  /// launch finds its inputs in device memory. That is how triton.testing.do_bench takes the time of a call, and the
  /// cache's lines, which are written back beside what the launch reads, cost the same.
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

/// Times `launches`, which put their work into `stream`, as a graph of all of them one after the other: a sample is the
/// time of the graph divided by their number. With inputs that differ from launch to launch, and are more than the L2
/// cache holds, that is what a model finds. What a first launch allocates must be there: a capture allocates nothing.
Timing time_graph(const Stream& stream, const TimingOptions& options,
                  const std::vector<std::function<void()>>& launches);

}  // namespace astatide::runtime
