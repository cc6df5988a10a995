#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "compiler/sim/code.h"
#include "compiler/sim/shadow.h"

// The state of the blocks that run together: their agents, memory, barriers, and what goes on beside the agents.

namespace astatide::sim {

/// A wrong access or wait; the simulation ends with it.
struct Fault {
  std::string what;
  std::string tile{};  // that it is about, where there is one
};

/// Where an agent stands in a ring, on one side.
struct Side {
  int slot = 0, phase = 0;
  std::int64_t rounds = 0;
  std::int64_t used = 0;  // slots that it has filled or given back
  int waited = -1;        // the slot at whose barrier it has waited since it came to this one
};

/// A barrier of a slot (PTX ISA, mbarrier).
struct Barrier {
  bool made = false;
  int arrivals = 0, pending = 0;
  std::int64_t bytes = 0;  // expected less those that came
  std::int64_t phases = 0;
  Knowledge gathered, passed;
  std::uint32_t maker = 0, made_at = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waited;  // lanes that have waited for the last phase, and when
};

/// A named barrier of a block, or that of a cluster.
struct Meeting {
  int threads = 0, arrived = 0;
  std::int64_t rounds = 0;
  Knowledge gathered, passed;
};

/// An operation that an agent has started and that goes on beside it.
struct Pending {
  std::size_t agent = 0;
  std::uint32_t actor = 0, time = 0;  // who makes its accesses, and when
  Knowledge knows;                    // of the agent when it started
  const Step* step = nullptr;
  std::vector<double> variables;
  std::vector<Side> sides;
  std::uint32_t fenced_products = 0;
  // Of a load by TMA: the block whose memory it fills, the barrier that it tells, the rows that it brings.
  std::size_t into = 0;
  std::size_t barrier = 0;
  std::int64_t bytes = 0;
  Part part;
  bool tells_barrier = false;
};

/// What agents start: wgmma, cp.async, and TMA to global memory.
enum OperationKind : std::uint8_t { kProducts, kCopies, kStores };

/// Operations of one kind that an agent has started: they end in order, and are waited for in groups.
struct Queue {
  std::uint32_t actor = 0;
  std::uint32_t started = 0, ended = 0;  // by time
  std::vector<std::uint32_t> groups;     // the last operation of each
};

struct LoopState {
  std::int64_t at = 0, left = 0;
};

struct Agent {
  std::size_t number = 0, block = 0;
  const Code* code = nullptr;
  int warp = -1;  // of those that compute
  int threads = 0;
  std::size_t step = 0;
  bool done = false;
  bool arrived = false;  // at the meeting at which it waits
  std::int64_t round = 0;
  std::vector<double> variables;
  std::vector<Side> sides;  // of each tile two: read, write
  std::vector<LoopState> loops;
  Knowledge knows;
  std::array<Queue, 3> queues;  // by OperationKind
  std::uint32_t fenced_products = 0;
  // The lanes of a warp run apart: what one lane does after the others' reads and waits is known to come after them
  // once they have met.
  std::uint32_t lanes = 0, lanes_time = 0;
  Knowledge lanes_know;
  std::vector<const tile::Stmt*> made_products;
  std::vector<std::uint32_t> read_by_product;  // by tile: the last product that reads it
  bool has_tile = true;                        // its place is that of a tile
  bool ended = false;                          // no tile is left
  std::int64_t next = 0;                       // number of the tile to deal out
  int registers = 0;
};

struct Block {
  std::size_t cluster = 0;
  int rank = 0;
  std::vector<Barrier> barriers;
  mutable std::map<int, Meeting> meetings;   // made where somebody first asks for them
  std::vector<Cell> memory;                  // of shared memory, by 2 bytes
  std::vector<std::vector<Cell>> registers;  // by tile
  std::vector<Cell> places;
  std::vector<std::int64_t> place_values;
  std::int64_t free_registers = 0;
  std::int64_t tile = 0;  // number of the first one
  /// Accesses from other blocks, which its end must come after.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> from_outside;
};

}  // namespace astatide::sim
