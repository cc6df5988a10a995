// Launches on the driver without a device (tests/support/fake_cuda), or on a device where there is one.
#pragma once

#include <cstdint>
#include <string>

#include "api/astatide.h"

namespace astatide::testing {

/// Makes the fake driver the one of this process. Before anything asks for a driver.
void use_fake_driver();

/// Why kernels can't be compiled here; empty where they can.
std::string missing_nvrtc();

/// Addresses on the fake device, none of which holds memory. `number` tells apart what launches use.
LaunchArguments fake_arguments(const Executable& executable, const std::map<std::string, std::int64_t>& extents,
                               std::uint64_t number);

}  // namespace astatide::testing
