#pragma once

#include <string>

#include "api/astatide.h"

namespace astatide {

/// A machine's name for tables of what was measured there: "NVIDIA H200", or the model of a CPU with the threads that
/// compute ("0": as many as the process may run on). Throws MachineError where there is no such device.
struct DeviceName {
  std::string name;
  std::string driver;  // "12.8"; empty on the CPU
};
DeviceName name_of_device(const Device& device, int threads);

}  // namespace astatide
