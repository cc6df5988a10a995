#pragma once

#include <string>
#include <utility>
#include <vector>

// What NVIDIA's ncu counts of kernels, to stand beside what is predicted of them.

namespace astatide::cost {

/// What ncu counted of one kernel.
struct KernelCounters {
  std::string name;
  double seconds = 0;
  double memory_read = 0, memory_written = 0;  // bytes
  double l2_bytes = 0;
  double tensor = 0, special = 0;  // shares of the time in which the pipes are busy
  double bank_conflicts = 0;       // clocks of shared memory
  /// Why warps did not go on, most frequent first: clocks for each instruction that was issued.
  std::vector<std::pair<std::string, double>> stalls;
};

/// Names of ncu's metrics, for its option --metrics.
std::string counter_metrics();
/// Of the table that ncu prints with --csv --page raw --print-units base: a line of names, one of units, then a line a
/// kernel. Lines before the table are left out; what is not in it is 0.
std::vector<KernelCounters> parse_counters(const std::string& text);

}  // namespace astatide::cost
