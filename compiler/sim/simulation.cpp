#include "compiler/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/sim/parts.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"

namespace astatide::sim {

using tile::Mem;
using tile::SyncOp;

namespace {

/// Registers of a multiprocessor, which the threads of a block share where they move them between roles.
constexpr int kRegisters = 65536, kRegisterUnit = 8;
constexpr int kOthers = 4;  // of an agent that computes: its other lanes, and its products, copies and stores

std::vector<std::uint32_t> bytes_of(const Mem& mem) {
  std::vector<std::uint32_t> out;
  const int size = static_cast<int>(size_in_bytes(mem.type)), rows = mem.dims[0].extent;
  const int panel = tile::kWarpgroup / size;  // columns of 128 bytes
  const auto* dense = std::get_if<tile::Rows>(&mem.layout);
  const int columns = mem.dims.back().extent, pitch = dense && dense->pitch > 0 ? dense->pitch : columns;
  for (tile::ElementCounter element(mem.dims); !element.done(); element.next()) {
    const int row = mem.dims.size() == 2 ? element[0] : 0, column = mem.dims.size() == 2 ? element[1] : element[0];
    const int at = std::holds_alternative<tile::Panels>(mem.layout)
                       ? (column / panel * rows + row) * panel + column % panel
                       : row * pitch + column;
    out.push_back(static_cast<std::uint32_t>(at * size));
  }
  return out;
}

}  // namespace

std::vector<GlobalMemory::Place>& GlobalMemory::of(const std::string& tensor, std::size_t elements) {
  std::vector<Place>& places = places_[tensor];
  places.resize(elements);
  return places;
}

Simulation::Simulation(const tile::Program& program, const tile::Kernel& kernel,
                       const std::map<std::string, std::int64_t>& extents, const std::map<std::string, double>& scalars,
                       std::map<std::string, DoubleTensor>& tensors, const Options& options, GlobalMemory& global,
                       int number, Choice choice)
    : program_(program),
      kernel_(kernel),
      options_(options),
      rounding_{.round_storage = options.round_storage},
      extents_(extents),
      sync_(kernel),
      counts_([&] {
        std::vector<std::int64_t> out;
        for (const tile::TileAxis& axis : kernel.tiles)
          out.push_back(evaluate_integer(kernel.steps_along(axis), extents));
        return out;
      }()),
      tiles_([&] {
        std::int64_t all = 1;
        for (const std::int64_t count : counts_) all *= std::max<std::int64_t>(0, count);
        return all;
      }()),
      // What teams leave in the memory of their block is one tensor, of one block at a time.
      most_blocks_(static_cast<std::size_t>(std::min<std::int64_t>(tiles_, kernel.teams > 1 ? 1 : options.resident) *
                                            kernel.cluster_blocks())),
      machine_(program, kernel, extents, scalars, tensors, rounding_, this),
      global_(global),
      number_(number),
      choice_(std::move(choice)) {
  std::optional<Change> change = options.change;
  if (change && change->kernel != number) change.reset();
  codes_ = make_codes(kernel, sync_, machine_, change);
  for (const tile::Tensor& tensor : program.tensors)
    tensors_.push_back(&global_.of(tensor.name, tensors.at(tensor.name).values.size()));
  for (const Mem& mem : kernel.mems) {
    byte_of_.push_back(mem.space == Space::shared ? bytes_of(mem) : std::vector<std::uint32_t>());
    slot_bytes_.push_back(mem.byte_count() / std::max(1, mem.ring));
  }
}

void Simulation::run() {
  if (tiles_ == 0) return;
  plan_actors();
  if (kernel_.persistent) {
    start_wave(0);
    return run_wave();
  }
  const auto at_once = static_cast<std::int64_t>(most_blocks_) / kernel_.cluster_blocks();
  for (std::int64_t first = 0; first < tiles_; first += at_once) {
    start_wave(first);
    run_wave();
  }
}

int Simulation::team_of(const Agent& agent) const { return std::max(0, agent.warp) / warps_of_team(kernel_); }

// Actors are the agents of all blocks, then their queues, then the loads into each slot, by the block that loads.
void Simulation::plan_actors() {
  std::size_t agents = 0;
  for (const Code& code : codes_.codes)
    agents += code.who == Who::computing ? static_cast<std::size_t>(warps_of(kernel_)) : 1;
  const auto barriers = static_cast<std::size_t>(sync_.barrier_count());
  first_load_actor_ = most_blocks_ * (agents + static_cast<std::size_t>(warps_of(kernel_) * kOthers));
  actors_ = first_load_actor_ + most_blocks_ * barriers * static_cast<std::size_t>(kernel_.cluster_blocks());
}

void Simulation::start_wave(std::int64_t first) {
  published_.push_back(std::move(counters_.done));
  ++wave_;
  agents_.clear();
  blocks_.clear();
  pending_.clear();
  flags_.clear();
  arrivals_.clear();
  counters_ = {Clock(actors_, 0), Clock(actors_, 0)};
  loads_.assign(actors_, 0);
  const std::int64_t clusters =
      std::min<std::int64_t>(tiles_ - first, static_cast<std::int64_t>(most_blocks_) / kernel_.cluster_blocks());
  drawn_ = clusters;
  const int launched = kernel_.block_threads() > 0
                           ? std::min(255, kRegisters / kernel_.block_threads()) / kRegisterUnit * kRegisterUnit
                           : 0;
  blocks_.resize(static_cast<std::size_t>(clusters * kernel_.cluster_blocks()));
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    block.cluster = b / static_cast<std::size_t>(kernel_.cluster_blocks());
    block.rank = static_cast<int>(b) % kernel_.cluster_blocks();
    block.tile = first + static_cast<std::int64_t>(block.cluster);
    block.barriers.resize(static_cast<std::size_t>(sync_.barrier_count()));
    block.memory.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, kernel_.shared_bytes) / 2 + 1));
    for (std::size_t t = 0; t < kernel_.mems.size(); ++t) {
      const Mem& mem = kernel_.mems[t];
      block.registers.emplace_back(mem.space == Space::shared ? 0
                                                              : machine_.tile(t).size * (copies(mem) / most_blocks_));
    }
    block.places.resize(kernel_.tiles.size() * tile::kTileSlots);
    block.place_values.resize(block.places.size());
    start_agents(b);
    for (Agent& agent : agents_)
      if (agent.block == b) agent.registers = launched;
  }
  // Queues come behind all agents, whose number is known now.
  std::uint32_t next = static_cast<std::uint32_t>(agents_.size());
  for (Agent& agent : agents_) {
    agent.knows = {Clock(actors_, 0), Clock(actors_, 0)};
    agent.knows.done[agent.number] = 1;
    if (agent.warp < 0) continue;
    for (Queue& queue : agent.queues) queue.actor = next++;
    agent.lanes = next++;
    agent.lanes_time = 1;
    agent.lanes_know = agent.knows;
  }
}

void Simulation::start_agents(std::size_t block) {
  const auto add = [&](const Code& code, int warp, int threads) {
    Agent& agent = agents_.emplace_back();
    agent.number = agents_.size() - 1;
    agent.block = block;
    agent.code = &code;
    agent.warp = warp;
    agent.threads = threads;
    agent.variables = machine_.variables();
    agent.read_by_product.resize(kernel_.mems.size());
    agent.sides.resize(2 * (kernel_.mems.size() + 1));
    if (sync_.has_roles())
      for (std::size_t side = 1; side < agent.sides.size(); side += 2) agent.sides[side].phase = 1;
    agent.next = blocks_[block].tile;
    if (!kernel_.warpgroup.empty() && warp >= 0)
      agent.variables[*machine_.find_slot(kernel_.warpgroup)] = warp * tile::kWarp / tile::kWarpgroup;
    if (!kernel_.persistent) agent.done = !set_first_tile(agent);
  };
  for (const Code& code : codes_.codes) {
    if (code.who == Who::dealer && blocks_[block].rank != 0) continue;  // one deals for a cluster
    if (code.who == Who::computing) {
      const int warps = warps_of(kernel_);
      for (int warp = 0; warp < warps; ++warp) add(code, warp, std::max(1, kernel_.threads() * kernel_.teams / warps));
    } else {
      const bool dealer_beside = codes_.codes.size() > 2 && blocks_[block].rank == 0;
      const int threads = tile::kWarpgroup * kernel_.producers;
      add(code, -1, code.who == Who::dealer ? tile::kWarp : threads - (dealer_beside ? tile::kWarp : 0));
    }
  }
}

void Simulation::run_wave() {
  std::size_t last = agents_.size();  // index into what can go on: agents, then what is pending
  std::vector<std::size_t> ready;
  for (;;) {
    ready.clear();
    int as_before = -1;
    for (std::size_t a = 0; a < agents_.size(); ++a) {
      if (!can_go_on(agents_[a])) continue;
      if (a == last) as_before = static_cast<int>(ready.size());
      ready.push_back(a);
    }
    for (std::size_t p = 0; p < pending_.size(); ++p)
      if (is_first(pending_[p])) ready.push_back(agents_.size() + p);
    if (ready.empty()) break;
    last = ready[ready.size() == 1 ? 0 : choice_(ready.size(), as_before)];
    if (last < agents_.size()) {
      go_on(agents_[last]);
    } else {
      const auto at = pending_.begin() + static_cast<std::ptrdiff_t>(last - agents_.size());
      Pending ended = std::move(*at);
      pending_.erase(at);
      complete(ended);
      last = agents_.size();
    }
    if (steps_ > options_.most_steps) fail(fmt::format("no end after {} steps", steps_));
  }
  agent_ = nullptr;
  if (std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) { return !agent.done; })) fail_blocked();
  check_end();
}

void Simulation::check_end() const {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    for (const auto& [number, meeting] : block.meetings)
      if (meeting.arrived != 0)
        fail(fmt::format("at the end {} of {} threads have arrived at barrier {}, which nobody waits for",
                         meeting.arrived, meeting.threads, number));
    for (const tile::SlotBarriers& ring : sync_.rings()) {
      for (int slot = 0; slot < ring.slots; ++slot) {
        const Barrier& full = block.barriers[static_cast<std::size_t>(ring.first + slot)];
        const Barrier& free = block.barriers[static_cast<std::size_t>(ring.first + ring.slots + slot)];
        // The place that says that there is no tile left is kept; the first block of a cluster counts for all.
        if (ring.ring == tile::kTilePlaces) {
          if (block.rank == 0 && full.phases != free.phases && full.phases != free.phases + 1)
            fail(fmt::format("{} places of tiles are left over", full.phases - free.phases));
          continue;
        }
        if (full.phases != free.phases)
          fail(fmt::format("slot {} of {} has been filled {} times and given back {} times", slot, ring.ring,
                           full.phases, free.phases));
        if (full.pending != full.arrivals || free.pending != free.arrivals || full.bytes != 0)
          fail(fmt::format("a barrier of slot {} of {} ends in the middle of a phase", slot, ring.ring));
      }
    }
    Clock end(actors_, 0);
    for (const Agent& agent : agents_)
      if (agent.block == b) join(end, agent.knows.done);
    for (const auto& [actor, time] : block.from_outside)
      if (end[actor] < time) fail("a block ends before another has written its last into its shared memory");
  }
  for (const Agent& agent : agents_) {
    if (agent.warp < 0) continue;
    for (const Queue& queue : agent.queues)
      if (agent.knows.done[queue.actor] < queue.started)
        fail(fmt::format("{} ends, and does not know that {} it has started",
                         name_of_agent(static_cast<std::uint32_t>(agent.number)),
                         &queue == &agent.queues[kStores]   ? "the stores"
                         : &queue == &agent.queues[kCopies] ? "the copies"
                                                            : "the products"));
    const Agent& leader = agents_[agent.number - static_cast<std::size_t>(agent.warp % 4)];
    if (leader.made_products != agent.made_products)
      fail(fmt::format("the warps of a warpgroup have not started the same products: {} and {}",
                       name_of_agent(static_cast<std::uint32_t>(leader.number)),
                       name_of_agent(static_cast<std::uint32_t>(agent.number))));
  }
}

std::string Simulation::name_of_agent(std::uint32_t actor) const {
  if (actor >= agents_.size()) return "an operation beside";
  const Agent& agent = agents_[actor];
  const std::string block = blocks_.size() > 1 ? fmt::format(" of block {}", agent.block) : "";
  return agent.warp >= 0 && warps_of(kernel_) > 1
             ? fmt::format("{} warp {}{}", name_of(agent.code->who), agent.warp, block)
             : std::string(name_of(agent.code->who)) + block;
}

std::string Simulation::waits_for(const Agent& agent, std::size_t* next) const {
  const Step& step = agent.code->steps[agent.step];
  const SyncOp& op = step.op;
  const auto other = [&](auto wanted) {
    for (const Agent& candidate : agents_)
      if (!candidate.done && candidate.number != agent.number &&
          blocks_[candidate.block].cluster == blocks_[agent.block].cluster && wanted(candidate)) {
        *next = candidate.number;
        return;
      }
  };
  std::string out =
      fmt::format("{} waits: {}", name_of_agent(static_cast<std::uint32_t>(agent.number)), tile::print(op));
  if (step.stmt) out += fmt::format(", in `{}`", head_of(*step.stmt));
  *next = agents_.size();
  if (op.kind == SyncOp::Kind::wait) {
    const Side& at = side(agent, op.ring, op.writes);
    const Barrier& barrier = blocks_[agent.block].barriers[barrier_of(agent, step, !op.writes)];
    out += fmt::format("; slot {}, phase {}, {} of {} have arrived", at.slot, barrier.phases,
                       barrier.arrivals - barrier.pending, barrier.arrivals);
    if (barrier.bytes > 0) out += fmt::format(", {} bytes are to come", barrier.bytes);
    const bool places = op.ring == tile::kTilePlaces;
    other([&](const Agent& candidate) {
      if (op.writes) return candidate.warp >= 0;
      return candidate.code->who == (places && kernel_.deals_apart() ? Who::dealer : Who::producer);
    });
  } else if (const Meeting* meeting = meeting_of(agent, op)) {
    out += fmt::format("; {} of {} threads have come", meeting->arrived, meeting->threads);
    other([&](const Agent& candidate) { return !candidate.arrived && candidate.block == agent.block; });
  } else if (op.kind == SyncOp::Kind::take_registers) {
    out += fmt::format("; {} are free", blocks_[agent.block].free_registers);
    other([&](const Agent& candidate) { return candidate.code->who == Who::producer; });
  }
  return out;
}

void Simulation::fail_blocked() const {
  std::string out = "deadlock";
  std::vector<char> named(agents_.size(), 0);
  std::size_t at = 0;
  while (agents_[at].done) ++at;
  // From one that waits to one that it waits for, until one has been named.
  while (at < agents_.size() && named[at] == 0) {
    named[at] = 1;
    std::size_t next = agents_.size();
    out += "\n  " + waits_for(agents_[at], &next);
    if (next < agents_.size() && named[next] != 0)
      out += fmt::format(": {}", name_of_agent(static_cast<std::uint32_t>(next)));
    at = next;
  }
  fail(out);
}

Finding Simulation::place() const {
  Finding out;
  out.kernel = kernel_.name;
  if (!agent_) return out;
  out.agent = name_of_agent(static_cast<std::uint32_t>(agent_->number));
  if (!step_) return out;
  if (step_->stmt) out.statement = head_of(*step_->stmt);
  if (step_->kind == Step::Kind::sync) {
    out.statement += (out.statement.empty() ? "" : ": ") + tile::print(step_->op);
    out.tile = step_->op.ring;
  }
  return out;
}

}  // namespace astatide::sim
