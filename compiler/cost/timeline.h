#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/cost/steps.h"

// Tiles of one kind on one multiprocessor, timed. A quarter of it is played through: the warps that share its units go
// through their statements, each unit serves them side by side, tensor cores and memory serve them one after the other,
// and they wait for slots of rings, barriers, tokens and turns as the kernel says. So it shows what a schedule makes
// overlap, and what it leaves in a row.

namespace astatide::cost {

/// What the multiprocessor has for the kernel, and what surrounds it.
struct Surroundings {
  const Machine* machine = nullptr;
  int blocks = 1;  // on the multiprocessor
  double clock = 0;
  double memory_bytes = 0;                    // a clock, of this multiprocessor's share
  double l2_bytes = 0;                        // a clock
  std::map<std::string, double> from_memory;  // by tensor: the part of its bytes that L2 does not hold
  bool merges = false;                        // blocks that arrive last are part of what is timed
  double spill = 1;                           // how much longer wgmma takes that is run in order
};

/// Clocks, and how long the units were busy, of tiles that follow each other.
struct Timing {
  double first = 0;  // of the first tile, from the start of the block
  double next = 0;   // that each further one adds
  /// Of the time, shares: the busiest is what binds.
  double tensor = 0, special = 0, issue = 0, shared = 0, memory = 0;
  double conflicts = 0;  // of shared memory's clocks
};

/// Throws InternalError where warps wait for each other for ever.
Timing time_tiles(const tile::Kernel& kernel, const Steps& steps, const Demands& demands, const Values& values,
                  const Surroundings& surroundings);

}  // namespace astatide::cost
