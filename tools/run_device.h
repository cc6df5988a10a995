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

/// What a launch that is timed finds in a GPU's L2 cache.
enum class Caches {
  as_left,  // what the launch before has left there
  cold,     // none of its inputs: the cache is overwritten before each launch
  rotated,  // launches of a graph take copies of the inputs in turn, which are more than it holds
};
/// "as_left", "cold" or "rotated".
std::string_view name_of(Caches caches);

/// How launches are timed.
struct TimingWish {
  int repetitions = 0;  // samples; 0: as many as fit a second, 1 to 10
  Caches caches = Caches::as_left;
  bool keep_mask_map = false;  // they take the map of masks that the first launch has made
};

struct Measured {
  double median_ms = 0;
  double min_ms = 0;
  int repetitions = 0;
  Caches caches = Caches::as_left;
  int launches = 1;              // a sample is the mean of so many, one after the other
  std::int64_t copied = 0;       // bytes of the copies of inputs that they take in turn
  std::int64_t cache_bytes = 0;  // of the GPU's L2 cache, where they do
};

/// Launches once into `outputs`, then takes the time of launches. Throws UserError where the device can't be asked what
/// `wish` wants.
Measured run_on_device(const Executable& executable, const Device& device, const HostTensors& inputs,
                       HostTensors& outputs, const std::map<std::string, double>& scalars,
                       const std::map<std::string, std::int64_t>& extents, const TimingWish& wish);

}  // namespace astatide::tools
