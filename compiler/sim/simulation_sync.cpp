// Barriers, fences, and waits for what was started.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/sim/parts.h"
#include "compiler/sim/simulation.h"

namespace astatide::sim {

using tile::SyncOp;
using Kind = tile::SyncOp::Kind;

namespace {

constexpr int kClusterMeeting = -1;

bool is_meeting(Kind kind) {
  return kind == Kind::meet || kind == Kind::meet_warpgroup || kind == Kind::meet_team || kind == Kind::meet_cluster ||
         kind == Kind::take_turn;
}

OperationKind operations_of(Kind kind) {
  if (kind == Kind::commit_products || kind == Kind::wait_products) return kProducts;
  return kind == Kind::commit_copies || kind == Kind::wait_copies ? kCopies : kStores;
}

int warpgroup(const Agent& agent) { return std::max(0, agent.warp) * tile::kWarp / tile::kWarpgroup; }

}  // namespace

Side& Simulation::side(Agent& agent, const std::string& ring, bool writes) const {
  const std::size_t tile = ring == tile::kTilePlaces ? kernel_.mems.size() : machine_.tile_of(ring);
  return agent.sides[2 * tile + (writes ? 1 : 0)];
}

const Side& Simulation::side(const Agent& agent, const std::string& ring, bool writes) const {
  const std::size_t tile = ring == tile::kTilePlaces ? kernel_.mems.size() : machine_.tile_of(ring);
  return agent.sides[2 * tile + (writes ? 1 : 0)];
}

/// The slot that an operation speaks of: where its side stands.
int Simulation::slot_of(const Agent& agent, const Step& step) const {
  const int slot = side(agent, step.op.ring, step.op.writes).slot;
  return step.change == Change::Kind::other_slot ? (slot + 1) % sync_.find_ring(step.op.ring)->slots : slot;
}

std::size_t Simulation::barrier_of(const Agent& agent, const Step& step, bool full) const {
  const tile::SlotBarriers& ring = *sync_.find_ring(step.op.ring);
  return static_cast<std::size_t>(ring.first + (full ? 0 : ring.slots) + slot_of(agent, step));
}

/// The blocks whose barrier an arrival is at.
std::vector<std::size_t> Simulation::told_by(const Agent& agent, const SyncOp& op) const {
  const bool places = op.ring == tile::kTilePlaces;
  const bool common = places || (op.kind == Kind::arrive && sync_.filled_by_cluster().contains(op.ring));
  if (!kernel_.cluster || !common) return {agent.block};
  const std::size_t first = agent.block - static_cast<std::size_t>(blocks_[agent.block].rank);
  if (places && !op.writes) return {first};
  std::vector<std::size_t> out;
  for (int rank = 0; rank < kernel_.cluster_blocks(); ++rank) out.push_back(first + static_cast<std::size_t>(rank));
  return out;
}

bool Simulation::is_for(const Agent& agent, const SyncOp& op) const {
  switch (op.by) {
    case SyncOp::By::all:
    case SyncOp::By::first_lane:
      return op.kind != Kind::make_barriers && op.kind != Kind::fence_barriers ? true : agent.warp == 0;
    case SyncOp::By::storing:
      return agent.warp % 4 == 0;
    case SyncOp::By::first_group:
      return warpgroup(agent) == 0;
    case SyncOp::By::last_group:
      return warpgroup(agent) == kernel_.warpgroups() - 1;
  }
  return true;
}

Meeting* Simulation::meeting_of(const Agent& agent, const SyncOp& op) const {
  if (!is_meeting(op.kind)) return nullptr;
  const Block& block = blocks_[agent.block];
  if (op.kind == Kind::meet_cluster)
    return &blocks_[agent.block - static_cast<std::size_t>(block.rank)].meetings[kClusterMeeting];
  const int by_group = op.kind == Kind::meet ? 0 : op.kind == Kind::meet_team ? team_of(agent) : warpgroup(agent);
  return &block.meetings[op.barrier + by_group];
}

int Simulation::meeting_size(const Step& step) const {
  int size = step.op.count;
  if (step.op.kind == Kind::meet_warpgroup) size = tile::kWarpgroup;
  if (step.op.kind == Kind::take_turn) size = 2 * tile::kWarpgroup;
  if (step.op.kind == Kind::meet_cluster) size = kernel_.cluster_blocks() * kernel_.block_threads();
  if (step.change == Change::Kind::fewer) size -= tile::kWarp;
  if (step.change == Change::Kind::more) size += tile::kWarp;
  return size;
}

void Simulation::arrive_at(Agent& agent, Meeting& meeting, int threads) {
  if (meeting.arrived > 0 && meeting.threads != threads)
    fail(fmt::format("one warp meets {} threads at a barrier, another {}", meeting.threads, threads));
  meeting.threads = threads;
  meeting.arrived += agent.threads;
  meeting.gathered.join(agent.knows);
  tick(agent);
  if (meeting.arrived > threads) fail(fmt::format("{} threads come to a barrier of {}", meeting.arrived, threads));
  if (meeting.arrived < threads) return;
  meeting.passed = std::move(meeting.gathered);
  meeting.gathered = {};
  meeting.arrived = 0;
  ++meeting.rounds;
}

bool Simulation::may_pass(const Agent& agent, const Step& step) const {
  const SyncOp& op = step.op;
  if (step.change == Change::Kind::remove || !is_for(agent, op)) return true;
  if (const Meeting* meeting = meeting_of(agent, op)) return agent.arrived && meeting->rounds > agent.round;
  switch (op.kind) {
    case Kind::wait: {
      const Barrier& barrier = blocks_[agent.block].barriers[barrier_of(agent, step, !op.writes)];
      const int phase = side(agent, op.ring, op.writes).phase ^ (step.change == Change::Kind::other_phase ? 1 : 0);
      return barrier.phases % 2 != phase;
    }
    case Kind::wait_products:
    case Kind::wait_copies:
    case Kind::wait_stores:
      return agent.queues[operations_of(op.kind)].ended >= awaited(agent, step);
    case Kind::take_registers:
      return (op.count - agent.registers) * agent.threads <= blocks_[agent.block].free_registers;
    default:
      return true;
  }
}

/// The first half of a meeting, for who has not come yet.
void Simulation::arrive(Agent& agent, const Step& step) {
  if (agent.arrived || step.change == Change::Kind::remove || !is_for(agent, step.op)) return;
  Meeting* meeting = meeting_of(agent, step.op);
  if (!meeting) return;
  meet_lanes(agent);  // all come
  agent.arrived = true;
  agent.round = meeting->rounds;
  arrive_at(agent, *meeting, meeting_size(step));
}

void Simulation::meet_lanes(Agent& agent) {
  if (agent.warp < 0) return;
  agent.knows.done[agent.lanes] = agent.lanes_time++;
  agent.lanes_know = agent.knows;
}

void Simulation::check_waited(const Agent& agent, const std::string& ring, bool writes) const {
  const Side& at = side(agent, ring, writes);
  if (at.waited == at.slot) return;
  fail(fmt::format("slot {} of {} is used by who has {}", at.slot, ring,
                   at.waited < 0 ? "waited at none of its barriers" : fmt::format("waited for slot {}", at.waited)));
}

// A side that stands elsewhere than its uses say would go wrong with the next one.
void Simulation::check_positions(const Agent& agent) const {
  for (std::size_t n = 0; n < agent.sides.size(); ++n) {
    const Side& at = agent.sides[n];
    const bool places = n / 2 == kernel_.mems.size();
    const std::string name = places ? std::string(tile::kTilePlaces) : kernel_.mems[n / 2].name;
    const tile::SlotBarriers* ring = sync_.find_ring(name);
    const std::int64_t slots = ring ? ring->slots : kernel_.mems[std::min(n / 2, kernel_.mems.size() - 1)].ring;
    if (at.used == 0) continue;
    const std::int64_t phase = at.used / slots % 2 ^ (n % 2);
    if (at.slot != at.used % slots || (ring && at.phase != phase))
      fail(fmt::format("after {} slots of {} it stands at slot {} in phase {}, not at slot {} in phase {}", at.used,
                       name, at.slot, at.phase, at.used % slots, phase));
  }
}

void Simulation::fence(Agent& agent) {
  join(agent.knows.fenced, agent.knows.done);
  // Each lane fences what it has done itself; others know of that once they have met.
  if (agent.warp >= 0) agent.knows.fenced[agent.lanes] = agent.lanes_time++;
  tick(agent);
}

void Simulation::make_barriers(Agent& agent, const Step& step) {
  const int change = step.change == Change::Kind::fewer ? -1 : step.change == Change::Kind::more ? 1 : 0;
  for (const tile::SlotBarriers& ring : sync_.rings()) {
    for (int slot = 0; slot < 2 * ring.slots; ++slot) {
      Barrier& barrier = blocks_[agent.block].barriers[static_cast<std::size_t>(ring.first + slot)];
      barrier.made = true;
      barrier.arrivals = barrier.pending = (slot < ring.slots ? ring.full_arrivals : ring.free_arrivals) + change;
      barrier.maker = static_cast<std::uint32_t>(agent.number);
      barrier.made_at = time(agent);
      barrier.gathered = barrier.passed = {Clock(actors_, 0), Clock(actors_, 0)};
    }
  }
  tick(agent);
}

void Simulation::end_of_phase(Barrier& barrier, const std::string& name) {
  if (barrier.pending < 0)
    fail(fmt::format("a barrier of {} gets more than the {} arrivals of a phase", name, barrier.arrivals));
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  // Who still looks for the last phase would wait for the one after this.
  for (const auto& [lanes, time] : barrier.waited)
    if (barrier.gathered.done[lanes] < time)
      fail(fmt::format(
          "a barrier of {} ends a phase while lanes of a warp may still wait for the one before: one of them "
          "has gone on before they have met",
          name));
  barrier.waited.clear();
  barrier.pending = barrier.arrivals;
  ++barrier.phases;
  barrier.passed = barrier.gathered;
}

void Simulation::signal(Agent& agent, const Step& step) {
  const SyncOp& op = step.op;
  const bool full = op.kind == Kind::expect || op.writes;
  Side& at = side(agent, op.ring, op.writes);
  const int told = slot_of(agent, step);
  if (told != at.slot) fail(fmt::format("tells of slot {} of {}, and stands at slot {}", told, op.ring, at.slot));
  check_waited(agent, op.ring, op.writes);
  if (!op.writes && op.ring != tile::kTilePlaces && agent.warp >= 0 &&
      agent.knows.done[agent.queues[kProducts].actor] < agent.read_by_product[machine_.tile_of(op.ring)])
    fail(
        fmt::format("gives back slot {} of {}, and a product that reads it has not been waited for", at.slot, op.ring));
  ++at.used;
  for (const std::size_t block : told_by(agent, op)) {
    Barrier& barrier = blocks_[block].barriers[barrier_of(agent, step, full)];
    const bool seen = block == agent.block ? agent.knows.done[barrier.maker] >= barrier.made_at
                                           : agent.knows.fenced[barrier.maker] >= barrier.made_at;
    if (!barrier.made || !seen) fail("arrives at a barrier of " + op.ring + " that it does not know to be made");
    barrier.gathered.join(agent.knows);
    --barrier.pending;
    if (op.kind == Kind::expect)
      barrier.bytes += op.count + (step.change == Change::Kind::fewer  ? -16
                                   : step.change == Change::Kind::more ? 16
                                                                       : 0);
    end_of_phase(barrier, op.ring);
    if (block != agent.block)
      blocks_[block].from_outside.emplace_back(static_cast<std::uint32_t>(agent.number), time(agent));
  }
  tick(agent);
}

/// The last operation of those that may not be open behind a wait; 0 where there is none.
std::uint32_t Simulation::awaited(const Agent& agent, const Step& step) const {
  const std::vector<std::uint32_t>& groups = agent.queues[operations_of(step.op.kind)].groups;
  const std::size_t open = static_cast<std::size_t>(step.op.count) + (step.change == Change::Kind::more ? 1 : 0);
  return groups.size() <= open ? 0 : groups[groups.size() - open - 1];
}

void Simulation::wait_for_groups(Agent& agent, const Step& step) {
  std::uint32_t& known = agent.knows.done[agent.queues[operations_of(step.op.kind)].actor];
  known = std::max(known, awaited(agent, step));
}

void Simulation::pass(Agent& agent, const Step& step) {
  const SyncOp& op = step.op;
  if (step.change == Change::Kind::remove || !is_for(agent, op)) return;
  if (const Meeting* meeting = meeting_of(agent, op)) {
    agent.arrived = false;
    agent.knows.join(meeting->passed);
    agent.lanes_know = agent.knows;
    // What the speaker has learnt at a counter.
    if (step.stmt && std::holds_alternative<tile::Arrive>(step.stmt->node))
      for (const auto& [variable, value] : flags_[agent.block]) machine_.set_slot(variable, value);
    return;
  }
  switch (op.kind) {
    case Kind::make_barriers:
      return make_barriers(agent, step);
    case Kind::wait: {
      Side& at = side(agent, op.ring, op.writes);
      Barrier& barrier = blocks_[agent.block].barriers[barrier_of(agent, step, !op.writes)];
      if (!barrier.made || agent.knows.done[barrier.maker] < barrier.made_at)
        fail("waits at a barrier of " + op.ring + " that it does not know to be made");
      // The first free slots have had no phase before them.
      const std::int64_t expected = at.rounds + (op.writes ? 0 : 1);
      if (barrier.phases != expected)
        fail(fmt::format("passes a barrier of {} in phase {}, and should in phase {}", op.ring, barrier.phases,
                         expected));
      agent.knows.join(barrier.passed);
      at.waited = slot_of(agent, step);
      agent.lanes_know.join(barrier.passed);  // each lane waits
      if (agent.warp >= 0) barrier.waited.emplace_back(agent.lanes, ++agent.lanes_time);
      return;
    }
    case Kind::expect:
    case Kind::arrive:
      return signal(agent, step);
    case Kind::next_slot: {
      Side& at = side(agent, op.ring, op.writes);
      at.waited = -1;
      const tile::SlotBarriers* ring = sync_.find_ring(op.ring);
      const int slots = ring ? ring->slots : kernel_.find(op.ring)->ring;
      if (++at.slot < slots) return;
      at.slot = 0;
      ++at.rounds;
      if (step.change != Change::Kind::keep_phase) at.phase ^= 1;
      return;
    }
    case Kind::meet_warp:
      return meet_lanes(agent);
    case Kind::pass_turn: {
      const int next = (warpgroup(agent) + 1) % op.count;
      meet_lanes(agent);
      return arrive_at(agent, blocks_[agent.block].meetings[op.barrier + next], 2 * tile::kWarpgroup);
    }
    case Kind::fence_barriers:
    case Kind::fence_proxy:
      return fence(agent);
    case Kind::fence_products:
      agent.fenced_products = time(agent);
      tick(agent);
      return meet_lanes(agent);
    case Kind::commit_products:
    case Kind::commit_copies:
    case Kind::commit_stores: {
      Queue& waited = agent.queues[operations_of(op.kind)];
      waited.groups.push_back(waited.started);
      return;
    }
    case Kind::wait_products:
      wait_for_groups(agent, step);
      return meet_lanes(agent);
    case Kind::wait_copies:
    case Kind::wait_stores:
      return wait_for_groups(agent, step);
    case Kind::give_registers:
      blocks_[agent.block].free_registers +=
          static_cast<std::int64_t>(agent.registers - op.count) * tile::kWarpgroup * kernel_.producers;
      agent.registers = op.count;
      return;
    case Kind::take_registers:
      blocks_[agent.block].free_registers -= static_cast<std::int64_t>(op.count - agent.registers) * agent.threads;
      agent.registers = op.count;
      return;
    default:
      return;
  }
}

}  // namespace astatide::sim
