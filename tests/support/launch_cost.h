// What a launch costs the host.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "api/astatide.h"

namespace astatide::testing {

struct LaunchCost {
  double median_us = 0, least_us = 0;
};

/// Of one warm launch, each sample over all of `launches`, of which there are some dozens: fewer than a stream holds.
/// `wait` lets the device come to an end between samples.
inline LaunchCost launch_cost(const Executable& executable, const std::vector<LaunchArguments>& launches, int samples,
                              const std::function<void()>& wait) {
  std::vector<double> all;
  for (int sample = -1; sample < samples; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    for (const LaunchArguments& arguments : launches) executable.launch(arguments);
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    wait();
    if (sample >= 0) all.push_back(us / static_cast<double>(launches.size()));
  }
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all.front()};
}

}  // namespace astatide::testing
