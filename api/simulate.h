#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/visibility.h"

// Runs a schedule for a GPU on the CPU as its threads would run it, and looks at every access and every wait. See
// compiler/sim/README.md for what is found.

namespace ASTATIDE_PUBLIC astatide {

class Executable;
struct LaunchArguments;

struct SimulationOptions {
  /// Of the order in which threads, copies and products go on.
  std::uint64_t seed = 1;
  /// Blocks, or clusters of blocks, that are there at a time; a grid of more is run in waves.
  int resident = 2;
  /// Instead of one order by chance: all orders in which what runs goes on as long as it can but for at most so many
  /// turns to something else, up to `most_runs` of them.
  std::optional<int> preemptions;
  std::int64_t most_runs = 2000;
};

struct SimulationFault {
  std::string what;       // one line, or, for a deadlock, one for each that waits
  std::string kernel;     // of the program
  std::string agent;      // which role and warp of which block
  std::string statement;  // of the tile program
  std::string directive;  // the part of the schedule that asks for it: "K at flash3.yaml:7", empty where none does
};
std::string to_text(const SimulationFault& fault);

struct SimulationReport {
  /// What was found first; outputs are undefined then.
  std::optional<SimulationFault> fault;
  std::int64_t steps = 0;  // of all agents, in the last run
  std::int64_t runs = 0;
  int waits = 0;  // places where kernels wait for or tell others
};

/// One launch of an executable that was built for Device::sim. Tensors are in host memory. Throws UserError as launch
/// does, and where the executable was built for another device.
SimulationReport simulate(const Executable& executable, const LaunchArguments& arguments,
                          const SimulationOptions& options = {});

}  // namespace astatide
