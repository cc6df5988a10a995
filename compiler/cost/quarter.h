#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/cost/timeline.h"

namespace astatide::cost {

/// A server that takes one request after the other.
struct Server {
  double free = 0;  // when it is
  double busy = 0;  // in all
  /// When a request of so many clocks has been served that comes now.
  double serve(double now, double clocks);
};

/// A quarter of a multiprocessor, and the warps in it.
class Quarter {
 public:
  Quarter(const tile::Kernel& kernel, const Steps& steps, const Demands& demands, const Values& values,
          const Surroundings& surroundings);
  Timing run(int tiles);

 private:
  struct Snapshot {
    double time = 0, tensor = 0, memory = 0;
    Demand used;
  };
  struct Frame {
    const std::vector<Step>* block = nullptr;
    std::size_t next = 0;
    // Of a loop.
    const tile::For* loop = nullptr;
    std::int64_t index = 0, left = 0;  // left: iterations behind this one
    std::vector<Snapshot> ends;        // of its iterations, where they are watched
  };

  /// Slots that a role fills, of one block: how often each side has gone on.
  struct Ring {
    std::vector<double> full;  // when what was filled is there, from the first fill on
    int reserved = 0;
    std::map<const void*, int> released;  // by reader

    int released_by_all() const;
  };
  struct Block {
    std::map<tile::TileName, Ring> rings;
    std::map<const tile::Role*, int> arrived;  // at barriers, in all
    int turns = 0;                             // passed on
    int ended = 0;                             // tiles, by its warps together
  };

  /// One warp.
  struct Agent {
    Block* block = nullptr;
    const tile::Role* role = nullptr;  // null: the kernel has none
    int number = 0, of = 1;            // among those of the role
    std::vector<Frame> frames;
    Values values;
    int tile = 0;
    Demand pending;   // what follows each other without a wait runs together
    Demand running;   // nothing where `left` is 0
    double left = 0;  // part of it
    double alone = 0;
    double wake = 0;              // not before
    std::function<bool()> waits;  // nor while this holds
    double loaded = 0;            // when registers have what was asked for
    double issued_until = 0;      // products
    std::map<std::string, double> tokens;
    std::map<tile::TileName, int> acquired, reserved;
    std::map<tile::TileName, std::deque<double>> own_slots;  // where no role fills
    int met = 0, turns = 0;
    bool done = false;

    bool runs() const { return left > 0; }
  };

  void add_block();
  void start_tile(Agent& agent);
  void end_tile(Agent& agent);
  /// Goes on until the warp waits or runs.
  void advance(Agent& agent);
  /// True where something begins to run that the next statement waits for.
  bool begin_pending(Agent& agent);
  /// False where the warp has to wait in front of it.
  bool step(Agent& agent, const Step& step);
  void step_loop(Agent& agent, const Step& step, const tile::For& loop);
  void step_let(const Agent& agent, const Step& step, const tile::Let& let, Values& values) const;
  bool holds(const Step& step, const Values& values) const;
  void step_copy(Agent& agent, const Step& step, const tile::Copy& copy);
  void step_product(Agent& agent, const Step& step, const tile::Mma& mma);
  void acquire(Agent& agent, const tile::TileName& tile);
  void meet(Agent& agent);
  void end_iteration(Agent& agent, Frame& frame);
  /// When bytes that are asked for now are there.
  double transfer(const Transfer& transfer, double part, double unroll);
  void watch(Agent& agent, Frame& frame);
  bool can_skip(std::size_t depth, const tile::For& loop, std::int64_t& iterations) const;
  /// Iterations behind the one that a warp is in that go through the same statements as often, `most` at most.
  std::int64_t alike_iterations(const Agent& agent, const Frame& frame, std::int64_t most) const;
  /// Adds what a warp decides on its way through a block: the trips of loops, and which branches it takes.
  void add_decisions(const Agent& agent, const std::vector<Step>& block, Values& values,
                     std::vector<std::int64_t>& out) const;
  bool wake_waiting();
  bool let_time_pass();

  const tile::Kernel& kernel_;
  const Steps& steps_;
  const Demands& demands_;
  const Values& values_;
  const Surroundings& around_;
  const Machine& machine_;
  std::deque<Block> blocks_;
  std::deque<Agent> agents_;
  int agents_each_ = 1;  // of a block
  double share_ = 1;     // of the multiprocessor's ways to memory
  int tiles_ = 1;
  double now_ = 0, skipped_ = 0;
  Server tensor_, memory_;
  bool products_from_registers_ = false;
  Demand used_;
  std::vector<double> tile_ends_;  // of the last block to end it
};

}  // namespace astatide::cost
