#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/algorithm/evaluate.h"
#include "compiler/sim/code.h"
#include "compiler/tile/ir.h"

// Runs a finished program for a GPU on the CPU as its threads would run it: roles at the same time, copies and products
// beside them, in any order that what they wait for allows. Each access to a tile and each wait is checked, so that a
// race, a deadlock or a wild access is found before a GPU hangs.

namespace astatide::sim {

struct Options {
  std::uint64_t seed = 1;
  /// Clusters, or blocks, at a time.
  int resident = 2;
  /// At most so many steps of all agents; more are a fault.
  std::int64_t most_steps = 20'000'000;
  bool round_storage = true;
  std::optional<Change> change{};
  /// Not by chance: all orders that leave what runs as long as it can go on, but for so many times, at most
  /// `most_runs`.
  std::optional<int> preemptions{};
  std::int64_t most_runs = 2000;
};

/// What is wrong, and where.
struct Finding {
  std::string what;
  std::string kernel, agent;
  std::string statement;  // of the tile program, empty where it is none
  std::string tile;       // that it is about, where there is one
};
std::string print(const Finding& finding);

struct Run {
  std::optional<Finding> finding;
  std::map<std::string, DoubleTensor> outputs;  // where nothing was found
  std::int64_t steps = 0, runs = 0;
  std::vector<std::vector<Site>> sites;  // of each kernel that ran: where it waits or tells others
};

/// `arguments` give every extent, scalar and input. Throws UserError where they do not fit the program, and where the
/// program is for a CPU.
Run simulate(const tile::Program& program, const Arguments& arguments, const Options& options);

/// All single changes of a program's synchronization that differ from it.
std::vector<Change> changes_of(const tile::Program& program, const std::vector<std::vector<Site>>& sites);

}  // namespace astatide::sim
