#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/cost/cost.h"
#include "tools/counters.h"
#include "tools/run_device.h"

namespace astatide::tools {

/// What was found out on a GPU beside a prediction.
struct MeasuredCost {
  std::string device;
  Measured time;
  std::vector<cost::KernelCounters> counters;  // empty where nobody asked for them
};

/// "8 GiB", "36.2 KiB", "512 bytes"; "1.2 G"; "0.75 ms"
std::string bytes_text(double bytes);
std::string count_text(double count);
std::string time_text(double seconds);

/// What the machine can do: lines of the roofline.
std::string machine_text(const cost::Machine& machine);
/// Of one kernel, beside what was counted of it.
std::string kernel_cost_text(const cost::KernelCost& kernel, const cost::KernelCounters* counted);
std::string cost_text(const cost::Cost& cost, const std::optional<MeasuredCost>& measured);
/// One JSON object, as text.
std::string cost_json(const cost::Cost& cost, const cost::Machine& machine,
                      const std::optional<MeasuredCost>& measured);

}  // namespace astatide::tools
