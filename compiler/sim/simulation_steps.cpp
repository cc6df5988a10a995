// What an agent does at each step, and what goes on beside it.

#include <algorithm>
#include <limits>

#include "compiler/sim/parts.h"
#include "compiler/sim/simulation.h"
#include "compiler/tile/parameters.h"

namespace astatide::sim {

using tile::Stmt;
using tile::SyncOp;
using Kind = Step::Kind;

bool Simulation::can_go_on(const Agent& agent) const {
  if (agent.done) return false;
  const Step& step = agent.code->steps[agent.step];
  // Who has not come to a meeting yet can come.
  return step.kind != Kind::sync || may_pass(agent, step) || (!agent.arrived && meeting_of(agent, step.op) != nullptr);
}

/// Makes the agent, or what it has started, the one whose accesses are checked.
void Simulation::enter(Agent& agent, const Step& step) {
  agent_ = &agent;
  step_ = &step;
  running_ = nullptr;
  into_ = agent.block;
  grid_ = step.grid;
  part_ = step.parts.empty() ? nullptr : &step.parts[agent.warp >= 0 ? static_cast<std::size_t>(agent.warp) : 0];
}

void Simulation::go_on(Agent& agent) {
  std::swap(machine_.variables(), agent.variables);
  bool pauses = false;
  while (!pauses && !agent.done) {
    const Step& step = agent.code->steps[agent.step];
    enter(agent, step);
    ++steps_;
    if (step.site >= 0) ++codes_.sites[static_cast<std::size_t>(step.site)].runs;
    pauses = run_step(agent, step);
  }
  std::swap(machine_.variables(), agent.variables);
}

bool Simulation::run_step(Agent& agent, const Step& step) {
  std::size_t next = agent.step + 1;
  bool pauses = false;
  switch (step.kind) {
    case Kind::run:
      run_instruction(agent, step);
      break;
    case Kind::start:
      start(agent, step);
      pauses = true;
      break;
    case Kind::sync:
      // Who waits at a meeting has to have come there.
      arrive(agent, step);
      if (!may_pass(agent, step)) return true;
      pass(agent, step);
      pauses = true;
      break;
    case Kind::loop: {
      const std::int64_t first = step.of_team ? team_of(agent) : integer(step.first),
                         past = step.once ? first + 1 : integer(step.past);
      if (past <= first) {
        next = step.target;
        break;
      }
      agent.loops.push_back({step.descending && !step.once ? past - 1 : first, past - first});
      machine_.set_slot(step.variable, static_cast<double>(agent.loops.back().at));
      break;
    }
    case Kind::next: {
      LoopState& loop = agent.loops.back();
      const Step& head = agent.code->steps[step.target - 1];
      if (--loop.left == 0) {
        agent.loops.pop_back();
        machine_.set_slot(head.variable, std::numeric_limits<double>::quiet_NaN());
        break;
      }
      loop.at += head.descending ? -1 : 1;
      machine_.set_slot(head.variable, static_cast<double>(loop.at));
      next = step.target;
      break;
    }
    case Kind::branch:
      if (step.first.run(machine_) == 0) next = step.target;
      break;
    case Kind::rows: {
      const auto& acquire = std::get<tile::Acquire>(step.stmt->node);
      const tile::Coordinate& rows = acquire.at.front();
      const tile::Mem& mem = *kernel_.find(acquire.tile);
      const std::int64_t present = integer(tile::TapeCompiler(machine_).compile(*rows.limit - rows.origin));
      if (present >= mem.extent_of(rows.axis))
        next = step.target;
      else
        fill_rows_beyond(agent, step);
      break;
    }
    case Kind::give_back:
      ++side(agent, std::get<tile::Release>(step.stmt->node).tile, false).used;
      break;
    case Kind::jump:
      next = step.target;
      break;
    case Kind::deal:
      deal(agent);
      break;
    case Kind::ended:
      if (agent.ended)
        next = step.target;
      else
        agent.next = drawn_++;
      break;
    case Kind::take:
      take(agent);
      if (agent.ended) next = step.target;
      break;
    case Kind::end:
      agent.done = true;
      check_positions(agent);
      if (agent.code->role && agent.code->role->registers > 0 && agent.registers != agent.code->role->registers)
        fail("the role has " + std::to_string(agent.registers) + " registers a thread, its code is for " +
             std::to_string(agent.code->role->registers));
      return true;
  }
  // What all lanes have read is known once they have met.
  if (step.meets) meet_lanes(agent);
  agent.step = next;
  return pauses;
}

/// Of a ring of one role a copy fills the next slot by itself.
void Simulation::count_filled(Agent& agent, const tile::Copy& copy) {
  const auto* dst = std::get_if<tile::TileName>(&copy.dst);
  if (!dst || !std::holds_alternative<tile::View>(copy.src) || kernel_.find(*dst)->ring <= 1) return;
  ++side(agent, *dst, true).used;
}

void Simulation::run_instruction(Agent& agent, const Step& step) {
  if (const auto* copy = std::get_if<tile::Copy>(&step.stmt->node)) count_filled(agent, *copy);
  const auto* arrival = std::get_if<tile::Arrive>(&step.stmt->node);
  if (!arrival) return step.action();
  // One thread speaks for all; the others learn of it where they meet.
  if (agent.warp != 0) return;
  counters_.join(agent.knows);
  agent.knows.join(counters_);
  arrivals_[agent.block] = {static_cast<std::uint32_t>(agent.number), time(agent)};
  tick(agent);
  step.action();
  const std::size_t flag = *machine_.find_slot(arrival->flag);
  flags_[agent.block][flag] = machine_.slot(flag);
}

void Simulation::start(Agent& agent, const Step& step) {
  const auto* copy = std::get_if<tile::Copy>(&step.stmt->node);
  if (copy && copy->via == tile::Via::tma && std::holds_alternative<tile::TileName>(copy->dst))
    return start_load(agent, step);
  const bool stores = copy && copy->via == tile::Via::tma;
  if (stores && agent.warp % 4 != 0) return;
  if (copy && !stores) count_filled(agent, *copy);
  Queue& queue = copy ? stores ? agent.queues[kStores] : agent.queues[kCopies] : agent.queues[kProducts];
  Pending& made = pending_.emplace_back();
  made.agent = agent.number;
  made.actor = queue.actor;
  made.time = ++queue.started;
  made.knows = agent.knows;
  made.step = &step;
  made.variables = machine_.variables();
  made.sides = agent.sides;
  made.fenced_products = agent.fenced_products;
  made.into = agent.block;
  if (!copy) {
    agent.made_products.push_back(step.stmt);
    for (const tile::Operand* operand :
         {&std::get<tile::Mma>(step.stmt->node).lhs, &std::get<tile::Mma>(step.stmt->node).rhs})
      agent.read_by_product[machine_.tile_of(std::get<tile::TileName>(*operand))] = made.time;
  }
  if (part_) made.part = *part_;
  tick(agent);
}

// Each block of a cluster brings its share of the rows to all.
void Simulation::start_load(Agent& agent, const Step& step) {
  const auto& copy = std::get<tile::Copy>(step.stmt->node);
  const std::string& name = std::get<tile::TileName>(copy.dst);
  const tile::SlotBarriers& ring = *sync_.find_ring(name);
  const std::size_t blocks = copy.multicast ? static_cast<std::size_t>(kernel_.cluster_blocks()) : 1;
  const std::size_t tile = machine_.tile_of(name);
  check_waited(agent, name, true);
  const auto slot = static_cast<std::size_t>(agent.sides[2 * tile + 1].slot);
  const auto rank = static_cast<std::size_t>(blocks_[agent.block].rank);
  const std::size_t first = agent.block - (copy.multicast ? rank : 0);
  const auto barriers = static_cast<std::size_t>(sync_.barrier_count());
  const auto number = static_cast<std::size_t>(ring.first) + slot;
  for (std::size_t into = first; into < first + blocks; ++into) {
    const std::size_t actor =
        first_load_actor_ + (into * barriers + number) * static_cast<std::size_t>(kernel_.cluster_blocks()) + rank;
    Pending& made = pending_.emplace_back();
    made.agent = agent.number;
    made.actor = static_cast<std::uint32_t>(actor);
    made.time = ++loads_[actor];
    made.knows = agent.knows;
    made.step = &step;
    made.variables = machine_.variables();
    made.sides = agent.sides;
    made.into = into;
    made.barrier = number;
    made.tells_barrier = true;
    const tile::SyncOps expects = sync_.before(*step.stmt);
    made.bytes = expects.front().count / static_cast<std::int64_t>(blocks);
    const int rows = kernel_.mems[tile].dims[0].extent, share = rows / static_cast<int>(blocks);
    made.part.rows.assign(static_cast<std::size_t>(rows), 0);
    const std::size_t begin = copy.multicast ? rank * static_cast<std::size_t>(share) : 0;
    std::fill_n(made.part.rows.begin() + static_cast<std::ptrdiff_t>(begin), share, 1);
    if (into != agent.block) blocks_[into].from_outside.emplace_back(made.actor, made.time);
  }
  tick(agent);
}

/// Operations of one kind of an agent end in order; loads by TMA in any.
bool Simulation::is_first(const Pending& pending) const {
  if (pending.tells_barrier) return true;
  return std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
           return other.actor == pending.actor;
         })->time == pending.time;
}

void Simulation::complete(Pending& pending) {
  ++steps_;
  Agent& agent = agents_[pending.agent];
  enter(agent, *pending.step);
  running_ = &pending;
  into_ = pending.into;
  part_ = pending.part.rows.empty() && pending.part.run == 0 ? nullptr : &pending.part;
  std::swap(machine_.variables(), pending.variables);
  pending.step->action();
  std::swap(machine_.variables(), pending.variables);
  running_ = nullptr;
  if (!pending.tells_barrier) {
    for (Queue& queue : agent.queues)
      if (queue.actor == pending.actor) queue.ended = pending.time;
    return;
  }
  Barrier& barrier = blocks_[pending.into].barriers[pending.barrier];
  if (!barrier.made || pending.knows.fenced[barrier.maker] < barrier.made_at)
    fail("TMA tells a barrier that no fence has shown it");
  pending.knows.done[pending.actor] = pending.time;
  barrier.gathered.join(pending.knows);
  barrier.bytes -= pending.bytes;
  end_of_phase(barrier, "a slot");
}

// The 128 threads of a warpgroup write zeros, and another warpgroup the same ones.
void Simulation::fill_rows_beyond(Agent& agent, const Step& step) {
  const auto& acquire = std::get<tile::Acquire>(step.stmt->node);
  const std::size_t tile = machine_.tile_of(acquire.tile);
  const tile::Mem& mem = kernel_.mems[tile];
  const int warps = tile::kWarpgroup / tile::kWarp;
  const Part part = in_runs(mem, warps)[static_cast<std::size_t>(agent.warp % warps)];
  tile::CoordinateRange range(machine_, acquire.at, mem.dims);
  range.start(machine_);
  tile::Pending zeros;
  std::size_t position = machine_.read_base(tile);
  for (tile::ElementCounter element(mem.dims); !element.done(); element.next(), ++position)
    if (!range.place(element) && part.holds(element)) zeros.add(position, 0);
  alike_ = true;
  machine_.commit(tile, zeros);
  alike_ = false;
}

std::vector<std::int64_t> Simulation::places_of(std::int64_t number, int rank) const {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::int64_t at = number % counts_[i];
    number /= counts_[i];
    if (kernel_.tiles[i].descending) at = counts_[i] - 1 - at;
    out.push_back(i == 0 && kernel_.cluster ? at * kernel_.cluster_blocks() + rank : at);
  }
  return out;
}

bool Simulation::set_first_tile(Agent& agent) {
  const Block& block = blocks_[agent.block];
  std::swap(machine_.variables(), agent.variables);
  set_tile(agent, places_of(block.tile, block.rank));
  const bool exists = machine_.tile_exists();
  std::swap(machine_.variables(), agent.variables);
  return exists;
}

// Behind the last tile of a cluster's axis it is that one again, which is not stored twice.
void Simulation::set_tile(Agent& agent, const std::vector<std::int64_t>& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::int64_t at = places[i];
    if (i == 0 && kernel_.cluster) {
      at = std::min(at, evaluate_integer(kernel_.tiles[0].count, extents_) - 1);
      agent.has_tile = at == places[i];
    }
    machine_.set_slot(*machine_.find_slot(kernel_.tiles[i].var), static_cast<double>(at));
  }
}

void Simulation::deal(Agent& agent) {
  check_waited(agent, std::string(tile::kTilePlaces), true);
  const auto is_left_out = [&] {
    set_tile(agent, places_of(agent.next, blocks_[agent.block].rank));
    return !machine_.tile_exists();
  };
  while (agent.next < tiles_ && is_left_out()) agent.next = drawn_++;
  agent.ended = agent.next >= tiles_;
  const std::size_t axes = kernel_.tiles.size();
  const auto slot = static_cast<std::size_t>(agent.sides.back().slot);
  const std::size_t blocks = kernel_.cluster ? static_cast<std::size_t>(kernel_.cluster_blocks()) : 1;
  const std::size_t first = agent.block - static_cast<std::size_t>(blocks_[agent.block].rank);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t into = kernel_.cluster ? first + b : agent.block;
    std::vector<std::int64_t> places = places_of(std::min(agent.next, tiles_ - 1), static_cast<int>(b));
    if (agent.ended) places[0] = -1;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::string wrong = blocks_[into].places[slot * axes + i].write(actor(), 0, false);
      if (!wrong.empty()) fail("the place of a tile " + wrong);
      blocks_[into].place_values[slot * axes + i] = places[i];
    }
    if (into != agent.block)
      blocks_[into].from_outside.emplace_back(static_cast<std::uint32_t>(agent.number), time(agent));
  }
  // Who deals out the tiles may compute with their places, too.
  if (!agent.ended) set_tile(agent, places_of(agent.next, blocks_[agent.block].rank));
}

void Simulation::take(Agent& agent) {
  check_waited(agent, std::string(tile::kTilePlaces), false);
  Block& block = blocks_[agent.block];
  const std::size_t axes = kernel_.tiles.size();
  const auto slot = static_cast<std::size_t>(agent.sides[agent.sides.size() - 2].slot);
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::string wrong = block.places[slot * axes + i].read(actor(), 0, false);
    if (!wrong.empty()) fail("the place of a tile " + wrong);
    places.push_back(block.place_values[slot * axes + i]);
  }
  agent.ended = places[0] < 0;
  if (!agent.ended) set_tile(agent, places);
}

}  // namespace astatide::sim
