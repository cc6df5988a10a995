#include "compiler/cost/quarter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"

namespace astatide::cost {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-6;
/// Iterations alike of a loop before the rest is taken to be like them, and how alike.
constexpr std::size_t kWatched = 6;
constexpr double kAlikeIterations = 0.01;
/// Iterations of a loop that are always played through at its end.
constexpr std::int64_t kLastIterations = 3;
/// Tiles that are timed.
constexpr int kTilesTimed = 4;

/// The units that the warps of a quarter share at the same time.
constexpr std::array kShared{&Demand::issue, &Demand::arithmetic, &Demand::special, &Demand::tensor, &Demand::shared};

Demand difference(const Demand& a, const Demand& b, double times) {
  Demand out;
  for (const auto unit : kShared) out.*unit = (a.*unit - b.*unit) * times;
  out.conflicts = (a.conflicts - b.conflicts) * times;
  return out;
}

}  // namespace

double Server::serve(double now, double clocks) {
  free = std::max(free, now) + clocks;
  busy += clocks;
  return free;
}

Quarter::Quarter(const tile::Kernel& kernel, const Steps& steps, const Demands& demands, const Values& values,
                 const Surroundings& surroundings)
    : kernel_(kernel),
      steps_(steps),
      demands_(demands),
      values_(values),
      around_(surroundings),
      machine_(*surroundings.machine) {
  // Blocks of less than four warps leave quarters to each other.
  const int warps = std::max(1, kernel.teams * kernel.threads() / 32);
  const int here = std::max(1, (surroundings.blocks * std::min(warps, kQuarters) + kQuarters - 1) / kQuarters);
  share_ = std::min(1.0, static_cast<double>(here) / surroundings.blocks);
  for (int n = 0; n < here; ++n) add_block();
}

void Quarter::add_block() {
  Block& block = blocks_.emplace_back();
  const std::size_t before = agents_.size();
  for (const auto& [tile, slots] : steps_.slots) block.rings[tile];
  const auto add = [&](const tile::Role* role, int count, const std::set<tile::TileName>& releases) {
    for (int n = 0; n < count; ++n) {
      Agent& agent = agents_.emplace_back();
      agent.block = &block;
      agent.role = role;
      agent.number = n;
      agent.of = count;
      // Blocks start one after the other.
      agent.wake = static_cast<double>(blocks_.size() - 1) * machine_.l2_latency;
      for (const tile::TileName& tile : releases)
        if (const auto ring = block.rings.find(tile); ring != block.rings.end()) ring->second.released[&agent] = 0;
    }
  };
  for (const tile::Stmt& stmt : kernel_.body) {
    const auto* role = std::get_if<tile::Role>(&stmt.node);
    if (!role) continue;
    std::set<tile::TileName> releases;
    tile::walk(role->body, [&](const tile::Stmt& s) {
      if (const auto* release = std::get_if<tile::Release>(&s.node)) releases.insert(release->tile);
    });
    add(role, role->count, releases);
  }
  if (agents_.size() == before) add(nullptr, demands_.warps(), {});
  agents_each_ = static_cast<int>(agents_.size() - before);
}

Timing Quarter::run(int tiles) {
  tiles_ = tiles;
  tile_ends_.assign(static_cast<std::size_t>(tiles), 0);
  for (Agent& agent : agents_) start_tile(agent);
  for (;;) {
    bool all_done = true;
    for (Agent& agent : agents_) {
      if (!agent.done && !agent.runs() && agent.wake <= now_ && !agent.waits) advance(agent);
      all_done = all_done && agent.done;
    }
    if (all_done) break;
    if (wake_waiting()) continue;
    if (!let_time_pass()) throw InternalError("kernel " + kernel_.name + " waits for itself when it is timed");
  }
  Timing out;
  out.first = tile_ends_.front() + machine_.block_start;
  out.next = tiles > 1 ? (tile_ends_.back() - tile_ends_.front()) / (tiles - 1) : out.first;
  const double total = std::max(1.0, tile_ends_.back());
  out.tensor = std::max(tensor_.busy, used_.tensor) / total;
  out.special = used_.special / total;
  out.issue = std::max(used_.issue, used_.arithmetic) / total;
  out.shared = used_.shared / total;
  out.memory = memory_.busy / total;
  out.conflicts = used_.shared > 0 ? used_.conflicts / used_.shared : 0;
  return out;
}

void Quarter::start_tile(Agent& agent) {
  agent.values = values_;
  agent.frames.clear();
  agent.frames.push_back({&steps_.body, 0, nullptr, 0, 0, {}});
}

void Quarter::end_tile(Agent& agent) {
  double& end = tile_ends_[static_cast<std::size_t>(agent.tile)];
  end = std::max(end, now_ + skipped_);
  ++agent.tile;
  Block& block = *agent.block;
  ++block.ended;
  if (agent.tile == tiles_) {
    agent.done = true;
    return;
  }
  start_tile(agent);
  if (kernel_.persistent) return;
  const int all = agents_each_ * agent.tile;
  agent.waits = [&block, all] { return block.ended < all; };
  // From when the last one has ended.
  agent.pending.latency += machine_.block_start;
}

bool Quarter::begin_pending(Agent& agent) {
  if (agent.pending.empty()) return false;
  agent.running = agent.pending;
  agent.pending = {};
  agent.alone = std::max(agent.running.alone(), kTiny);
  agent.left = 1;
  used_ += agent.running;
  return true;
}

bool Quarter::wake_waiting() {
  bool any = false;
  for (Agent& agent : agents_) {
    if (agent.done || agent.runs()) continue;
    if (agent.waits && !agent.waits()) {
      agent.waits = nullptr;
      any = any || agent.wake <= now_;
    } else if (!agent.waits && agent.wake <= now_) {
      any = true;
    }
  }
  return any;
}

bool Quarter::let_time_pass() {
  Demand asked;  // of each unit by all that run, in a clock
  for (const Agent& agent : agents_) {
    if (!agent.runs()) continue;
    for (const auto unit : kShared) asked.*unit += agent.running.*unit / agent.alone;
  }
  if (tensor_.free > now_ && machine_.special_beside_wgmma < 1) {
    const double left = machine_.special_beside_wgmma;
    asked.special /= products_from_registers_ ? left : (1 + left) / 2;
  }
  const auto rate_of = [&](const Agent& agent) {
    double slower = 1;
    for (const auto unit : kShared)
      if (agent.running.*unit > 0) slower = std::max(slower, asked.*unit);
    return 1 / (agent.alone * slower);
  };
  double step = kNever;
  for (const Agent& agent : agents_) {
    if (agent.done) continue;
    if (agent.runs())
      step = std::min(step, agent.left / rate_of(agent));
    else if (agent.wake > now_)
      step = std::min(step, agent.wake - now_);
  }
  if (step == kNever) return false;
  for (Agent& agent : agents_) {
    if (!agent.runs()) continue;
    agent.left -= step * rate_of(agent);
    if (agent.left < kTiny) agent.left = 0;
  }
  now_ += step;
  return true;
}

/// Where iterations have become alike, the rest is taken to be like them, as far as it does the same: where masks or
/// parts make inner loops longer or shorter, warps that are in one iteration and in the next would not meet at as many
/// barriers. As many are left out as all warps have before them in loops that go on together, so that none is ahead of
/// where it would be.
void Quarter::watch(Agent& agent, Frame& frame) {
  if (&agent != &agents_[static_cast<std::size_t>(agents_each_) - 1]) return;
  frame.ends.push_back({now_ + skipped_, tensor_.busy, memory_.busy, used_});
  const std::size_t n = frame.ends.size();
  if (n < 2 * kWatched + 1) return;
  const Snapshot &last = frame.ends[n - 1], &middle = frame.ends[n - 1 - kWatched],
                 &first = frame.ends[n - 1 - 2 * kWatched];
  const double now = last.time - middle.time, before = middle.time - first.time;
  if (std::abs(now - before) > kAlikeIterations * now) return;
  const auto depth = static_cast<std::size_t>(&frame - agent.frames.data());
  std::int64_t iterations = 0;
  if (!can_skip(depth, *frame.loop, iterations)) return;
  const double times = static_cast<double>(iterations) / kWatched;
  skipped_ += now * times;
  tensor_.busy += (last.tensor - middle.tensor) * times;
  memory_.busy += (last.memory - middle.memory) * times;
  used_ += difference(last.used, middle.used, times);
  for (Agent& other : agents_) {
    if (other.done) continue;
    Frame& at = other.frames[depth];
    at.left -= iterations;
    at.index += (at.loop->descending ? -1 : 1) * iterations;
    other.values[at.loop->var] = at.index;
  }
  frame.ends.clear();
}

bool Quarter::can_skip(std::size_t depth, const tile::For& loop, std::int64_t& iterations) const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const int tile = agents_[static_cast<std::size_t>(agents_each_) - 1].tile;
  for (const Agent& agent : agents_) {
    if (agent.done || agent.frames.size() <= depth || agent.tile != tile) return false;
    const Frame& frame = agent.frames[depth];
    if (!frame.loop || frame.loop->var != loop.var) return false;
    least = std::min(least, frame.left);
  }
  iterations = least - kLastIterations;
  std::set<std::pair<const std::vector<Step>*, std::int64_t>> seen;  // warps alike, in the same iteration
  for (const Agent& agent : agents_) {
    if (iterations < static_cast<std::int64_t>(kWatched)) return false;
    if (agent.done) continue;
    const Frame& frame = agent.frames[depth];
    if (kernel_.warpgroup.empty() && !seen.emplace(frame.block, frame.index).second) continue;
    iterations = alike_iterations(agent, frame, iterations);
  }
  return iterations >= static_cast<std::int64_t>(kWatched);
}

Timing time_tiles(const tile::Kernel& kernel, const Steps& steps, const Demands& demands, const Values& values,
                  const Surroundings& surroundings) {
  return Quarter(kernel, steps, demands, values, surroundings).run(kTilesTimed);
}

}  // namespace astatide::cost
