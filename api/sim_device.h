#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/executable_state.h"
#include "compiler/schedule/schedule.h"

namespace astatide {

/// Blocks that a simulated GPU holds at once.
inline constexpr int kSimulatedBlocks = 2;

/// What stands where other devices have code: a simulation runs the program itself.
std::shared_ptr<const DeviceCode> make_simulated_code();

/// Where a schedule speaks of a tensor or a definition, by name: "K at flash3.yaml:7".
std::map<std::string, std::string> directives_of(const Schedule& schedule);

/// One launch whose arguments have been checked.
SimulationReport simulate_launch(const Compiled& compiled, const LaunchArguments& arguments, const Extents& extents,
                                 const std::map<std::string, float>& scalars, const SimulationOptions& options);

}  // namespace astatide
