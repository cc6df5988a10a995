#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/sim/block.h"
#include "compiler/sim/simulate.h"

namespace astatide::sim {

/// What has been written to global memory, and by whom: of all kernels of a program.
class GlobalMemory {
 public:
  struct Place {
    std::int32_t kernel = -1;  // that wrote it last
    std::int32_t wave = 0;
    std::uint32_t agent = 0, time = 0;
  };
  std::vector<Place>& of(const std::string& tensor, std::size_t elements);

 private:
  std::map<std::string, std::vector<Place>> places_;
};

/// Chooses among so many ways to go on; `last` is the one that goes on with what ran last, -1 where that can't.
using Choice = std::function<std::size_t(std::size_t count, int last)>;

/// One kernel, all of its blocks: as many at a time as `options` says.
class Simulation : public tile::Share {
 public:
  Simulation(const tile::Program& program, const tile::Kernel& kernel,
             const std::map<std::string, std::int64_t>& extents, const std::map<std::string, double>& scalars,
             std::map<std::string, DoubleTensor>& tensors, const Options& options, GlobalMemory& global, int number,
             Choice choice);
  /// Throws Fault; `place` says where.
  void run();
  /// Where the agent stands that ran last.
  Finding place() const;
  std::int64_t steps() const { return steps_; }
  const std::vector<Site>& sites() const { return codes_.sites; }

  // tile::Share
  std::size_t copies(const tile::Mem& mem) const override;
  std::size_t copy_of(std::size_t tile, bool write) const override;
  bool holds(const tile::ElementCounter& element) const override;
  bool holds_row(int row) const override;
  void on_read(std::size_t tile, std::size_t position) override;
  void on_write(std::size_t tile, std::size_t position) override;
  void on_load(std::size_t tensor, std::size_t position) override;
  void on_store(std::size_t tensor, std::size_t position) override;
  bool stores() const override { return !agent_ || agent_->has_tile; }

 private:
  // simulation.cpp: blocks and agents, and who goes on
  void plan_actors();
  int team_of(const Agent& agent) const;
  void start_wave(std::int64_t first);
  void start_agents(std::size_t block);
  void run_wave();
  void check_end() const;
  [[noreturn]] void fail_blocked() const;
  std::string waits_for(const Agent& agent, std::size_t* next) const;

  // simulation_steps.cpp
  bool can_go_on(const Agent& agent) const;
  /// Up to the next place where another may come first.
  void go_on(Agent& agent);
  /// Whether the agent may not go on at once.
  bool run_step(Agent& agent, const Step& step);
  void run_instruction(Agent& agent, const Step& step);
  void count_filled(Agent& agent, const tile::Copy& copy);
  void start(Agent& agent, const Step& step);
  void start_load(Agent& agent, const Step& step);
  void complete(Pending& pending);
  bool is_first(const Pending& pending) const;
  void fill_rows_beyond(Agent& agent, const Step& step);
  void deal(Agent& agent);
  void take(Agent& agent);
  void set_tile(Agent& agent, const std::vector<std::int64_t>& places);
  bool set_first_tile(Agent& agent);  // false where that one is left out
  std::vector<std::int64_t> places_of(std::int64_t number, int rank) const;
  void enter(Agent& agent, const Step& step);
  std::int64_t integer(const tile::Tape& tape) { return machine_.integer(tape); }

  // simulation_sync.cpp
  bool is_for(const Agent& agent, const tile::SyncOp& op) const;
  bool may_pass(const Agent& agent, const Step& step) const;
  void arrive(Agent& agent, const Step& step);
  void pass(Agent& agent, const Step& step);
  void make_barriers(Agent& agent, const Step& step);
  Meeting* meeting_of(const Agent& agent, const tile::SyncOp& op) const;
  int meeting_size(const Step& step) const;
  void arrive_at(Agent& agent, Meeting& meeting, int threads);
  void signal(Agent& agent, const Step& step);
  void end_of_phase(Barrier& barrier, const std::string& name);
  int slot_of(const Agent& agent, const Step& step) const;
  std::size_t barrier_of(const Agent& agent, const Step& step, bool full) const;
  std::vector<std::size_t> told_by(const Agent& agent, const tile::SyncOp& op) const;
  Side& side(Agent& agent, const std::string& ring, bool writes) const;
  const Side& side(const Agent& agent, const std::string& ring, bool writes) const;
  /// A slot may be used by who has waited at its barrier.
  void check_waited(const Agent& agent, const std::string& ring, bool writes) const;
  void check_positions(const Agent& agent) const;
  std::uint32_t awaited(const Agent& agent, const Step& step) const;
  void wait_for_groups(Agent& agent, const Step& step);
  void tick(Agent& agent) { ++agent.knows.done[agent.number]; }
  std::uint32_t time(const Agent& agent) const { return agent.knows.done[agent.number]; }
  void fence(Agent& agent);
  void meet_lanes(Agent& agent);

  [[noreturn]] void fail(const std::string& what, const std::string& tile = "") const { throw Fault{what, tile}; }
  Actor actor(bool by_lanes = false) const;
  void on_block_tensor(std::size_t tensor, std::size_t position, bool write);
  bool is_known(const GlobalMemory::Place& place, const Actor& by) const;
  std::pair<std::size_t, std::size_t> place_in_memory(std::size_t tile, std::size_t position) const;
  std::string name_of_agent(std::uint32_t actor) const;

  const tile::Program& program_;
  const tile::Kernel& kernel_;
  const Options& options_;
  tile::InterpretOptions rounding_;
  std::map<std::string, std::int64_t> extents_;
  tile::Synchronization sync_;
  std::vector<std::int64_t> counts_;  // steps along the tile axes
  std::int64_t tiles_ = 1;            // or clusters
  std::size_t most_blocks_ = 1;       // at a time
  tile::Machine machine_;
  Codes codes_;
  GlobalMemory& global_;
  std::vector<std::vector<GlobalMemory::Place>*> tensors_;
  int number_, wave_ = 0;
  Choice choice_;

  std::vector<Block> blocks_;
  std::vector<Agent> agents_;
  std::deque<Pending> pending_;
  std::vector<std::uint32_t> loads_;  // by actor, those started
  std::size_t actors_ = 0, first_load_actor_ = 0;
  std::int64_t drawn_ = 0;
  Knowledge counters_;                                          // of all arrivals at counters in global memory
  std::vector<Clock> published_;                                // by wave that has ended: what those knew
  std::map<std::size_t, std::map<std::size_t, double>> flags_;  // of arrivals: by block, by variable
  std::map<std::size_t, std::pair<std::uint32_t, std::uint32_t>> arrivals_;  // by block: who has arrived last, and when
  std::int64_t steps_ = 0;

  // Places of tiles.
  std::vector<std::vector<std::uint32_t>> byte_of_;  // by tile and element, in a slot
  std::vector<std::int64_t> slot_bytes_;

  // Who runs now.
  Agent* agent_ = nullptr;
  const Step* step_ = nullptr;
  std::uint32_t grid_ = 0;  // by which its elements are dealt out to lanes; 0: by no grid
  const Pending* running_ = nullptr;
  const Part* part_ = nullptr;
  std::size_t into_ = 0;  // block whose memory is written
  bool alike_ = false;
};

}  // namespace astatide::sim
