// Launches on the driver without a device (tests/support/fake_cuda), or on a device where there is one.
#pragma once

#include <cstdint>
#include <string>

#include "api/astatide.h"

namespace astatide::testing {

/// Makes the fake driver the one of this process, with four devices: 9.0 three times, and 8.0. Before anything asks for
/// a driver.
void use_fake_driver();

/// Why kernels can't be compiled here; empty where they can.
std::string missing_nvrtc();

/// 256 MiB in the primary context of a device, and a stream there (0: the default one): the same for the same number,
/// as long as the process lives.
void* fake_memory(int device, std::uint64_t number);
void* fake_stream(int device, std::uint64_t number);

/// A launch with memory of a device. `number` tells apart what launches use.
LaunchArguments fake_arguments(const Executable& executable, const std::map<std::string, std::int64_t>& extents,
                               std::uint64_t number, int device = 0);

}  // namespace astatide::testing
