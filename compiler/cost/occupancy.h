#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide::cost {

/// How many blocks of a kernel a multiprocessor holds at once, and what sets that.
struct Occupancy {
  int blocks = 0;
  std::string limited_by;  // "blocks", "threads", "shared memory" or "registers"
};
/// Of blocks of so many threads, with so many bytes and registers a thread.
Occupancy occupancy_of(const Target& target, int threads, std::int64_t shared_bytes, int registers);

/// Registers of a thread as the compiler behind the emitted source will ask for them: fragments and what stands beside
/// them, as many as the number of blocks that the kernel is built for leaves.
struct Registers {
  int fragments = 0;  // at least
  int limit = 0;      // that a thread may have
  int asked = 0;      // within the limit
  int spilled = 0;    // beyond it
};
Registers registers_of(const tile::Kernel& kernel, const Target& target);

/// Extents of a launch with the number of parts that it chooses, for the target's machine.
std::map<std::string, std::int64_t> launch_extents(const tile::Program& program, const Target& target,
                                                   std::map<std::string, std::int64_t> extents);

}  // namespace astatide::cost
