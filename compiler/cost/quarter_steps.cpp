#include <algorithm>

#include "compiler/cost/quarter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

// What single statements do to the warps of a quarter.

namespace astatide::cost {
namespace {

/// From a product's last clock until its results may be read; from a copy by TMA until a barrier shows it, beside the
/// latency of memory; of a counter in global memory, there and back.
constexpr double kWgmmaLatency = 60, kTmaLatency = 250;
/// Until all warps know that the last one has come.
constexpr double kMeetLatency = 20;
/// To ask for an own place of a ring, and to see that it is there.
constexpr double kRingLatency = 15;

/// Demands that are computed by lanes of the warp itself, one statement behind the other without a wait.
bool is_blocking(const tile::Stmt& stmt) {
  return match(
      stmt.node, [](const tile::Map&) { return false; }, [](const tile::RowReduce&) { return false; },
      [](const tile::Fill&) { return false; }, [](const tile::Let&) { return false; },
      [](const tile::For&) { return false; }, [](const tile::Role&) { return false; },
      [](const tile::Release&) { return false; }, [](const tile::Copy&) { return false; },
      [](const auto&) { return true; });
}

struct Range {
  std::int64_t begin = 0, trips = 0;
};

Range range_of(const Step& step, const tile::For& loop, const Values& values) {
  const std::int64_t begin = step.begin.value(values).value_or(0);
  // A team runs one of its loop's iterations, and all are alike.
  if (loop.passes_once()) return {begin, 1};
  return {begin, std::max<std::int64_t>(0, step.end.value(values).value_or(begin + 1) - begin)};
}

/// Whether what is in a block may be gone through more than once, or not at all.
bool decides(const std::vector<Step>& block) {
  return std::any_of(block.begin(), block.end(), [](const Step& step) { return tile::nested_block(*step.stmt); });
}

}  // namespace

int Quarter::Ring::released_by_all() const {
  int least = reserved;
  for (const auto& [reader, count] : released) least = std::min(least, count);
  return least;
}

void Quarter::advance(Agent& agent) {
  while (!agent.done && !agent.waits && agent.wake <= now_) {
    Frame& frame = agent.frames.back();
    if (frame.next == frame.block->size()) {
      if (agent.frames.size() == 1) {
        if (begin_pending(agent)) return;
        end_tile(agent);
      } else if (frame.loop) {
        end_iteration(agent, frame);
      } else {
        agent.frames.pop_back();
      }
      continue;
    }
    const Step& next = (*frame.block)[frame.next];
    if (is_blocking(*next.stmt) && begin_pending(agent)) return;
    // What was asked for from memory is needed by anything but the next request.
    const auto* copy = std::get_if<tile::Copy>(&next.stmt->node);
    const bool asks = copy && copy->via == tile::Via::load;
    if (agent.loaded > now_ && !asks && !std::holds_alternative<tile::For>(next.stmt->node)) {
      if (begin_pending(agent)) return;
      agent.wake = agent.loaded;
      return;
    }
    if (!step(agent, next)) return;
  }
}

void Quarter::end_iteration(Agent& agent, Frame& frame) {
  if (frame.left == 0) {
    agent.frames.pop_back();
    return;
  }
  watch(agent, frame);
  --frame.left;
  frame.index += frame.loop->descending ? -1 : 1;
  agent.values[frame.loop->var] = frame.index;
  frame.next = 0;
  agent.pending.issue += 4;
}

void Quarter::step_loop(Agent& agent, const Step& step, const tile::For& loop) {
  const auto [begin, trips] = range_of(step, loop, agent.values);
  if (trips == 0) return;
  const std::int64_t index = loop.descending ? begin + trips - 1 : begin;
  agent.values[loop.var] = index;
  agent.frames.push_back({&step.body, 0, &loop, index, trips - 1, {}});
}

void Quarter::step_let(const Agent& agent, const Step& step, const tile::Let& let, Values& values) const {
  if (let.own) values[kernel_.warpgroup] = agent.number;
  if (const auto known = step.begin.value(values)) values[let.name] = *known;
}

void Quarter::add_decisions(const Agent& agent, const std::vector<Step>& block, Values& values,
                            std::vector<std::int64_t>& out) const {
  for (const Step& step : block)
    match(
        step.stmt->node,
        [&](const tile::For& loop) {
          const Range range = range_of(step, loop, values);
          out.push_back(range.trips);
          if (!decides(step.body)) return;
          for (std::int64_t n = 0; n < range.trips; ++n) {
            values[loop.var] = range.begin + n;
            add_decisions(agent, step.body, values, out);
          }
        },
        [&](const tile::If&) {
          const bool taken = holds(step, values);
          out.push_back(taken ? 1 : 0);
          if (taken) add_decisions(agent, step.body, values, out);
        },
        [&](const tile::Let& let) { step_let(agent, step, let, values); }, [](const auto&) {});
}

std::int64_t Quarter::alike_iterations(const Agent& agent, const Frame& frame, std::int64_t most) const {
  if (!decides(*frame.block)) return most;
  const auto decisions_at = [&](std::int64_t index) {
    Values values = agent.values;
    values[frame.loop->var] = index;
    std::vector<std::int64_t> out;
    add_decisions(agent, *frame.block, values, out);
    return out;
  };
  const std::vector<std::int64_t> now = decisions_at(frame.index);
  for (std::int64_t n = 1; n <= most; ++n)
    if (decisions_at(frame.index + (frame.loop->descending ? -n : n)) != now) return n - 1;
  return most;
}

bool Quarter::holds(const Step& step, const Values& values) const {
  switch (step.taken) {
    case Taken::always:
      return true;
    case Taken::never:
      return false;
    case Taken::last:
      return around_.merges;
    case Taken::condition:
      break;
  }
  return step.begin.value(values).value_or(1) != 0;
}

double Quarter::transfer(const Transfer& transfer, double part, double unroll) {
  const auto known = around_.from_memory.find(transfer.tensor);
  const double from_memory = known == around_.from_memory.end() ? 1 : known->second;
  const double bytes = transfer.bytes * part / share_;
  const double clocks = std::max(bytes / around_.l2_bytes, bytes * from_memory / around_.memory_bytes);
  const double latency = machine_.l2_latency + from_memory * (machine_.memory_latency - machine_.l2_latency);
  return memory_.serve(now_, clocks) + (transfer.write ? 0 : latency / unroll);
}

void Quarter::step_copy(Agent& agent, const Step& step, const tile::Copy& copy) {
  agent.pending += step.demand;
  const auto* filled = std::get_if<tile::TileName>(&copy.dst);
  const auto ring = filled ? agent.block->rings.find(*filled) : agent.block->rings.end();
  const auto fill = [&](double end) {
    std::vector<double>& full = ring->second.full;
    if (static_cast<int>(full.size()) < ring->second.reserved)
      full.push_back(end);
    else if (!full.empty())
      full.back() = std::max(full.back(), end);
  };
  if (step.transfer.tensor.empty()) {
    // From registers: there once what comes before has been done.
    if (ring != agent.block->rings.end()) fill(now_ + agent.pending.alone());
    return;
  }
  const bool by_tma = copy.via == tile::Via::tma;
  double unroll = 1;
  for (const Frame& frame : agent.frames)
    if (frame.loop) unroll = std::max(1, frame.loop->unroll);
  // Warps share what they copy themselves.
  const double end = transfer(step.transfer, by_tma ? 1 : 1.0 / agent.of, unroll) + (by_tma ? kTmaLatency : 0);
  if (step.transfer.write) return;
  if (ring != agent.block->rings.end()) {
    fill(end);
  } else if (!copy.token.empty()) {
    agent.tokens[copy.token] = std::max(agent.tokens[copy.token], end);
  } else if (steps_.readers.contains(*filled)) {
    agent.own_slots[*filled].push_back(end);
  } else {
    agent.loaded = std::max(agent.loaded, end);
  }
}

void Quarter::step_product(Agent& agent, const Step& step, const tile::Mma& mma) {
  products_from_registers_ = step.product.registers;
  const double end = tensor_.serve(now_, step.product.clocks * around_.spill) + kWgmmaLatency;
  if (mma.token.empty())
    agent.wake = end;
  else
    agent.tokens[mma.token] = end;
}

void Quarter::acquire(Agent& agent, const tile::TileName& tile) {
  const auto ring = agent.block->rings.find(tile);
  if (ring == agent.block->rings.end()) {
    std::deque<double>& slots = agent.own_slots[tile];
    if (slots.empty()) return;
    agent.wake = std::max(agent.wake, slots.front());
    slots.pop_front();
    return;
  }
  const Ring& slots = ring->second;
  const auto n = static_cast<std::size_t>(agent.acquired[tile]++);
  agent.pending.latency += kRingLatency;
  if (n < slots.full.size()) {
    agent.wake = std::max(agent.wake, slots.full[n]);
    return;
  }
  agent.waits = [this, &agent, &slots, n] {
    if (n >= slots.full.size()) return true;
    agent.wake = std::max(now_, slots.full[n]);
    return false;
  };
}

void Quarter::meet(Agent& agent) {
  Block& block = *agent.block;
  int& arrived = block.arrived[agent.role];
  ++arrived;
  const int all = ++agent.met * agent.of;
  agent.pending.latency += kMeetLatency;
  if (arrived < all) agent.waits = [&arrived, all] { return arrived < all; };
}

bool Quarter::step(Agent& agent, const Step& step) {
  const tile::Stmt& stmt = *step.stmt;
  ++agent.frames.back().next;
  match(
      stmt.node, [&](const tile::For& loop) { step_loop(agent, step, loop); },
      [&](const tile::If&) {
        agent.pending += step.demand;
        if (holds(step, agent.values)) agent.frames.push_back({&step.body, 0, nullptr, 0, 0, {}});
      },
      [&](const tile::Role& role) {
        if (&role == agent.role) agent.frames.push_back({&step.body, 0, nullptr, 0, 0, {}});
      },
      [&](const tile::Let& let) { step_let(agent, step, let, agent.values); },
      [&](const tile::Mma& mma) {
        agent.pending += step.demand;
        if (mma.by == tile::Family::wgmma) {
          // Its operands are there, so it starts now; the instructions that start it come with what follows.
          step_product(agent, step, mma);
        } else {
          begin_pending(agent);
        }
      },
      [&](const tile::Copy& copy) { step_copy(agent, step, copy); },
      [&](const tile::Await& await) {
        if (const auto token = agent.tokens.find(await.token); token != agent.tokens.end())
          agent.wake = std::max(agent.wake, token->second);
      },
      [&](const tile::Reserve& reserve) {
        const auto known = agent.block->rings.find(reserve.tile);
        if (known == agent.block->rings.end()) return;
        Ring& ring = known->second;
        const int slots = steps_.slots.at(reserve.tile);
        // Where several warps fill a slot together, each reserves it.
        const int mine = ++agent.reserved[reserve.tile];
        ring.reserved = std::max(ring.reserved, mine);
        const int wanted = mine - slots;
        const auto taken = [&ring, wanted] { return ring.released_by_all() < wanted; };
        if (taken()) agent.waits = taken;
        agent.pending.latency += kRingLatency;
      },
      [&](const tile::Acquire& slot) { acquire(agent, slot.tile); },
      [&](const tile::Release& slot) {
        // Once what came before has been done.
        const auto ring = agent.block->rings.find(slot.tile);
        if (ring == agent.block->rings.end()) return;
        if (begin_pending(agent)) {
          --agent.frames.back().next;
          return;
        }
        ++ring->second.released[&agent];
      },
      [&](const tile::Sync&) { meet(agent); },
      [&](const tile::Turn& turn) {
        Block& block = *agent.block;
        if (turn.what == tile::Turn::Do::pass) {
          ++block.turns;
          return;
        }
        const int wanted = agent.turns++ * agent.of + agent.number;
        const auto others = [&block, wanted] { return block.turns < wanted; };
        if (others()) agent.waits = others;
      },
      [&](const tile::Arrive&) {
        meet(agent);
        agent.pending.latency += 2.0 * machine_.memory_latency;
      },
      [&](const auto&) { agent.pending += step.demand; });
  return !agent.runs() && !agent.waits && agent.wake <= now_;
}

}  // namespace astatide::cost
