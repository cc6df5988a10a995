#pragma once

#include <memory>
#include <string>

#include "api/astatide.h"
#include "runtime/timing.h"
#include "tools/run_data.h"

namespace astatide::tools {

struct ChosenDevice {
  Device device;
  std::string name;  // "cpu", "cuda:0"
  std::string model;
};
/// auto, cpu, cuda or cuda:N. `auto` is the first GPU where there is one, else the CPU.
ChosenDevice choose_device(const std::string& word);

struct Measured {
  double median_ms = 0;
  double min_ms = 0;
  int repetitions = 0;
};

/// Launches once into `outputs`, then takes the time of `repetitions` launches; 0: as many as fit a second, 1 to 10.
/// With `keep_mask_map` those take the map of masks that the first one has made.
Measured run_on_device(const Executable& executable, const Device& device, const HostTensors& inputs,
                       HostTensors& outputs, const std::map<std::string, double>& scalars,
                       const std::map<std::string, std::int64_t>& extents, int repetitions, bool keep_mask_map = false);

}  // namespace astatide::tools
