#include "compiler/sim/simulate.h"

#include <algorithm>
#include <random>

#include "compiler/sim/simulation.h"
#include "compiler/support/diagnostic.h"

namespace astatide::sim {
namespace {

/// By chance. Every other seed rather goes on with what ran last, so that some run far ahead of the others.
Choice by_chance(std::uint64_t seed) {
  return [random = std::mt19937_64(seed), stays = seed % 2 == 0](std::size_t count, int last) mutable {
    if (stays && last >= 0 && random() % 8 != 0) return static_cast<std::size_t>(last);
    return static_cast<std::size_t>(random() % count);
  };
}

/// All orders with at most so many turns away from what could have gone on, one after the other.
class Orders {
 public:
  explicit Orders(int most) : most_(most) {}

  std::size_t choose(std::size_t count, int last) {
    const std::size_t own = last >= 0 ? static_cast<std::size_t>(last) : 0;
    if (at_ == taken_.size()) taken_.push_back({0, count});
    const Turn& turn = taken_[at_++];
    // Turn 0 goes on; the others are the other ways.
    return turn.number == 0 ? own : turn.number <= own ? turn.number - 1 : turn.number;
  }

  /// Goes to the next order; false where there is none.
  bool next() {
    taken_.resize(at_);
    at_ = 0;
    int away =
        static_cast<int>(std::count_if(taken_.begin(), taken_.end(), [](const Turn& turn) { return turn.number > 0; }));
    while (!taken_.empty()) {
      Turn& turn = taken_.back();
      const bool first = turn.number == 0;
      if (turn.number + 1 < turn.count && (!first || away < most_)) {
        ++turn.number;
        return true;
      }
      if (!first) --away;
      taken_.pop_back();
    }
    return false;
  }

 private:
  struct Turn {
    std::size_t number = 0, count = 0;
  };
  int most_;
  std::vector<Turn> taken_;
  std::size_t at_ = 0;
};

Run simulate_once(const tile::Program& program, const Arguments& arguments, const Options& options,
                  const Choice& choice) {
  Run out;
  GlobalMemory global;
  int number = 0;
  const tile::InterpretOptions interpret{.round_storage = options.round_storage, .resident_blocks = options.resident};
  struct Stopped {};
  const auto run_kernel = [&](const tile::Kernel& kernel, const std::map<std::string, std::int64_t>& extents,
                              std::map<std::string, DoubleTensor>& tensors) {
    Simulation simulation(program, kernel, extents, arguments.scalars, tensors, options, global, number++, choice);
    const auto stop = [&](const std::string& what, const std::string& tile) {
      out.finding = simulation.place();
      out.finding->what = what;
      if (!tile.empty()) out.finding->tile = tile;
    };
    try {
      simulation.run();
    } catch (const Fault& fault) {
      stop(fault.what, fault.tile);
    } catch (const InternalError& error) {
      // An index out of a tensor's shape, a name that was never set.
      stop(error.what(), "");
    }
    out.steps += simulation.steps();
    out.sites.push_back(simulation.sites());
    if (out.finding) throw Stopped();
  };
  try {
    out.outputs = tile::run_kernels(program, arguments.scalars, arguments, interpret, run_kernel);
  } catch (const Stopped&) {
  }
  return out;
}

}  // namespace

std::string print(const Finding& finding) {
  std::string where = "kernel " + finding.kernel;
  if (!finding.agent.empty()) where += ", " + finding.agent;
  if (!finding.statement.empty()) where += ", `" + finding.statement + "`";
  return where + ": " + finding.what;
}

Run simulate(const tile::Program& program, const Arguments& arguments, const Options& options) {
  for (const tile::Kernel& kernel : program.kernels)
    if (kernel.threads() <= 0) throw UserError("the program is for a CPU: its kernels have no threads to simulate");
  if (!options.preemptions) {
    Run out = simulate_once(program, arguments, options, by_chance(options.seed));
    out.runs = 1;
    return out;
  }
  Orders orders(*options.preemptions);
  Run out;
  std::int64_t runs = 0;
  do {
    out = simulate_once(program, arguments, options,
                        [&](std::size_t count, int last) { return orders.choose(count, last); });
    out.runs = ++runs;
  } while (!out.finding && runs < options.most_runs && orders.next());
  return out;
}

std::vector<Change> changes_of(const tile::Program& program, const std::vector<std::vector<Site>>& sites) {
  std::vector<Change> out;
  for (std::size_t k = 0; k < sites.size(); ++k) {
    const tile::Synchronization sync(program.kernels[k]);
    for (std::size_t n = 0; n < sites[k].size(); ++n)
      for (const Change::Kind kind : {Change::Kind::remove, Change::Kind::other_phase, Change::Kind::other_slot,
                                      Change::Kind::keep_phase, Change::Kind::fewer, Change::Kind::more})
        if (changes_anything(sites[k][n].what, kind, sync))
          out.push_back({static_cast<int>(k), static_cast<int>(n), kind});
  }
  return out;
}

}  // namespace astatide::sim
