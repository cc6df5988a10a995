#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/cost/machine.h"
#include "compiler/cost/occupancy.h"
#include "compiler/cost/traffic.h"
#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

// What a program will cost on a machine that need not be there: computed from its statements after the last pass, which
// name tiles and units and nothing of what is computed. README.md says how far it can be trusted.

namespace astatide::cost {

/// Shares of a kernel's time in which its units are busy.
struct Busy {
  double tensor = 0, special = 0;
  double issue = 0;   // schedulers and f32 lanes
  double shared = 0;  // shared memory
  double l2 = 0, memory = 0;
};

struct KernelCost {
  std::string name;
  double seconds = 0;
  /// What the kernel waits for most: "tensor cores", "multiply-adds", "instructions", "special functions", "shared
  /// memory", "L2", "memory", "latency", or "launch".
  std::string binds;

  Busy busy;
  double clock = 0;   // Hz, as the load leaves it
  double launch = 0;  // of the seconds
  double product_flops = 0, element_flops = 0, transcendentals = 0;
  MemoryTraffic memory;  // by tensor, what crosses the bus
  /// The same of the kernel by itself, while it runs: it begins with an empty L2, and what it leaves there is not
  /// written. So ncu counts (`--cache-control all`).
  MemoryTraffic alone;
  double l2_bytes = 0;      // between multiprocessors and L2
  double shared_bytes = 0;  // between shared memory and registers or tensor cores
  double conflicts = 0;     // share of shared memory's clocks that bank conflicts take
  Occupancy occupancy;      // of the GPU; none on the CPU
  Registers registers;
  double tiles = 0, waves = 0;
  double tail = 0;  // share of the multiprocessors' time that is lost because tiles end unevenly

  double memory_bytes() const;
  double bytes_alone() const;
  /// Operations a byte of memory.
  double intensity() const { return memory_bytes() > 0 ? (product_flops + element_flops) / memory_bytes() : 0; }
};

struct Cost {
  std::vector<KernelCost> kernels;
  double seconds() const;
  double memory_bytes() const;
};

/// Predicted time of a program, as compile gives it, on `target` for extents; never needs a GPU, never compiles. Throws
/// InternalError where an extent has no value. Bounds that depend on data count as extents alone give them.
Cost predict(const tile::Program& program, const Target& target, const std::map<std::string, std::int64_t>& extents);

}  // namespace astatide::cost
