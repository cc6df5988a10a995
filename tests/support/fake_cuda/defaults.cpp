// A CUDA driver without a device: every function that the library looks for is there and succeeds. Those that matter
// are in the other files.
#include "runtime/driver_api.h"

namespace astatide::runtime {

#define ASTATIDE_DEFINE(function, name, parameters)                                       \
  extern "C" __attribute__((weak)) DriverResult fake_##function parameters __asm__(name); \
  extern "C" __attribute__((weak)) DriverResult fake_##function parameters { return DriverResult::success; }
ASTATIDE_DRIVER_FUNCTIONS(ASTATIDE_DEFINE)
ASTATIDE_OPTIONAL_DRIVER_FUNCTIONS(ASTATIDE_DEFINE)
#undef ASTATIDE_DEFINE

}  // namespace astatide::runtime
