#include "compiler/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/cost/kernel_tiles.h"
#include "compiler/cost/timeline.h"
#include "compiler/cost/waves.h"

namespace astatide::cost {
namespace {

/// Of wgmma that runs in order because its registers did not fit: each waits for the one before it.
constexpr double kInOrder = 1.8;
/// Below this no unit is busy enough to be what binds.
constexpr double kBinds = 0.5;
/// Tiles that are dealt out one by one; of more the average counts.
constexpr std::int64_t kMostTiles = 8000;
/// Up to so many waves the last one is looked at by itself.
constexpr std::int64_t kFewWaves = 8;

void name_what_binds(KernelCost& out, bool on_tensor_cores, bool lane_products) {
  if (out.launch > out.seconds / 2) {
    out.binds = "launch";
    return;
  }
  const std::pair<double, const char*> units[] = {{on_tensor_cores ? out.busy.tensor : 0, "tensor cores"},
                                                  {out.busy.issue, lane_products ? "multiply-adds" : "instructions"},
                                                  {out.busy.special, "special functions"},
                                                  {out.busy.shared, "shared memory"},
                                                  {out.busy.l2, "L2"},
                                                  {out.busy.memory, "memory"}};
  const auto most = std::max_element(std::begin(units), std::end(units));
  out.binds = most->first < kBinds ? "latency" : most->second;
}

bool has_lane_products(const tile::Kernel& kernel) {
  bool found = false;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    found = found || (mma && mma->by == tile::Family::fma);
  });
  return found;
}

/// One kernel on a GPU.
class KernelModel {
 public:
  KernelModel(const tile::Program& program, const tile::Kernel& kernel, const Target& target, const Values& values)
      : kernel_(kernel),
        machine_(machine_of(target)),
        values_(values),
        tiles_(program, kernel, values),
        registers_(registers_of(kernel, target)),
        occupancy_(occupancy_of(target, kernel.block_threads(), std::max<std::int64_t>(0, kernel.shared_bytes),
                                kernel.producers > 0 ? registers_.fragments : registers_.asked)),
        demands_(program, kernel, machine_, kernel.producers > 0 ? 0 : registers_.spilled),
        steps_(steps_of(kernel, demands_)) {
    occupancy_.blocks = std::max({occupancy_.blocks, kernel.producers > 0 ? 1 : kernel.blocks, 1});
  }

  std::int64_t at_once() const {
    const std::int64_t all = std::int64_t{occupancy_.blocks} * machine_.multiprocessors;
    return std::max<std::int64_t>(1, std::min(all, tiles_.count()));
  }
  const KernelTiles& tiles() const { return tiles_; }

  KernelCost run(const MemoryTraffic& memory, double launch) {
    KernelCost out;
    tiles_.add_to(out);
    out.memory = memory;
    out.occupancy = occupancy_;
    out.registers = registers_;
    out.launch = launch;
    out.clock = machine_.clock;
    if (tiles_.count() == 0) {
      out.seconds = launch;
      out.binds = "launch";
      return out;
    }
    const double active = static_cast<double>(std::min<std::int64_t>(machine_.multiprocessors, tiles_.count()));
    const Makespan makespan = play(out, active);
    double seconds = makespan.clocks / out.clock;
    out.tail = makespan.tail;
    // However evenly multiprocessors ask: what all ask for together.
    const double by_memory = out.memory_bytes() / (machine_.memory_rate * machine_.memory_share);
    const double by_l2 = out.l2_bytes / machine_.l2_rate;
    seconds = std::max({seconds, by_memory, by_l2});
    out.busy.memory = by_memory / seconds;
    out.busy.l2 = by_l2 / seconds;
    out.seconds = seconds + launch;
    name_what_binds(out, tile::on_tensor_cores(kernel_.body), has_lane_products(kernel_));
    return out;
  }

 private:
  /// Times tiles of few kinds, takes the others to lie between them, and deals all out.
  Makespan play(KernelCost& out, double active) {
    const std::vector<std::size_t> kinds = tiles_.kinds();
    Surroundings around;
    around.machine = &machine_;
    around.clock = machine_.clock;
    around.blocks = static_cast<int>(std::min<std::int64_t>(
        occupancy_.blocks, (tiles_.count() + machine_.multiprocessors - 1) / machine_.multiprocessors));
    around.memory_bytes = machine_.memory_rate * machine_.memory_share / active / around.clock;
    around.l2_bytes = std::min(machine_.l2_bytes, machine_.l2_rate / active / around.clock);
    const std::int64_t slots = std::int64_t{around.blocks} * static_cast<std::int64_t>(active);
    around.merges = tiles_.count() <= slots;
    if (kernel_.producers > 0 && registers_.spilled > 0) around.spill = kInOrder;
    for (const auto& [tensor, traffic] : tiles_.moved_by_tensor()) {
      const auto known = out.memory.find(tensor);
      const double moved = traffic.read + traffic.written;
      const double crossed = known == out.memory.end() ? 0 : known->second.read + known->second.written;
      around.from_memory[tensor] = moved > 0 ? std::min(1.0, crossed / moved) : 0;
    }
    std::vector<std::pair<double, Timing>> timed;
    Busy& busy = out.busy;
    double weight = 0;
    for (const std::size_t kind : kinds) {
      const Timing timing = time_tiles(kernel_, steps_, demands_, tiles_.values_of(kind), around);
      const double work = tiles_.work_of(kind);
      timed.emplace_back(work, timing);
      const double part = std::max(timing.next, 1.0);
      weight += part;
      busy.tensor += part * timing.tensor;
      busy.special += part * timing.special;
      busy.issue += part * timing.issue;
      busy.shared += part * timing.shared;
      out.conflicts += part * timing.conflicts;
    }
    for (double* share : {&busy.tensor, &busy.special, &busy.issue, &busy.shared, &out.conflicts}) *share /= weight;
    out.waves = static_cast<double>(tiles_.count()) / static_cast<double>(slots);

    std::vector<double> each, first;
    visit_tiles(kernel_, tiles_.counts(), values_, [&](const std::vector<std::int64_t>& place) {
      const double work = tiles_.work_at(place);
      each.push_back(between(timed, work, &Timing::next));
      first.push_back(between(timed, work, &Timing::first));
      return static_cast<std::int64_t>(each.size()) < kMostTiles;
    });
    shorten_last(each, around, slots);
    Makespan makespan = distribute(each, first, slots);
    if (static_cast<std::int64_t>(each.size()) < tiles_.count())
      makespan.clocks *= static_cast<double>(tiles_.count()) / static_cast<double>(each.size());
    const double filled = (1 - makespan.tail);
    for (double* share : {&busy.tensor, &busy.special, &busy.issue, &busy.shared}) *share *= filled;
    out.clock = machine_.clock_at(std::min(1.0, busy.tensor));
    return makespan;
  }

  /// Blocks of a last wave that is not full have more of the machine each.
  void shorten_last(std::vector<double>& each, Surroundings around, std::int64_t slots) {
    const auto rest = static_cast<std::int64_t>(each.size()) % slots;
    if (kernel_.persistent || rest == 0 || tiles_.count() < slots || tiles_.count() > kFewWaves * slots) return;
    const double all = std::min<double>(machine_.multiprocessors, static_cast<double>(tiles_.count()));
    const auto active = static_cast<double>(std::min<std::int64_t>(machine_.multiprocessors, rest));
    around.blocks = static_cast<int>((rest + machine_.multiprocessors - 1) / machine_.multiprocessors);
    around.memory_bytes *= all / active;
    around.l2_bytes = std::min(machine_.l2_bytes, machine_.l2_rate / active / around.clock);
    const std::size_t kind = tiles_.kinds().back();
    const double alone = time_tiles(kernel_, steps_, demands_, tiles_.values_of(kind), around).first;
    const double before = *std::max_element(each.begin(), each.end());
    for (auto n = each.size() - static_cast<std::size_t>(rest); n < each.size(); ++n)
      each[n] *= std::min(1.0, alone / std::max(before, 1.0));
  }

  static double between(const std::vector<std::pair<double, Timing>>& timed, double work, double Timing::*value) {
    if (timed.size() == 1) return timed[0].second.*value;
    std::size_t n = 1;
    while (n + 1 < timed.size() && timed[n].first < work) ++n;
    const auto& [low, a] = timed[n - 1];
    const auto& [high, b] = timed[n];
    const double part = high > low ? std::clamp((work - low) / (high - low), 0.0, 1.0) : 1;
    return a.*value + part * (b.*value - a.*value);
  }

  const tile::Kernel& kernel_;
  const Machine& machine_;
  const Values& values_;
  KernelTiles tiles_;
  Registers registers_;
  Occupancy occupancy_;
  Demands demands_;
  Steps steps_;
};

/// On the CPU: coarse. Operations one after the other, beside them what comes from memory.
KernelCost on_cpu(const KernelTiles& tiles, const MemoryTraffic& memory, const Machine& machine, double launch) {
  KernelCost out;
  tiles.add_to(out);
  out.memory = memory;
  out.launch = launch;
  out.clock = machine.clock;
  const double threads = machine.multiprocessors;
  const auto count = static_cast<double>(tiles.count());
  out.waves = count / threads;
  const double uneven = count > 0 ? std::ceil(out.waves) / out.waves : 1;
  out.tail = 1 - 1 / uneven;
  const double lanes = (out.product_flops + out.element_flops) / machine.flops() * uneven;
  const double special = out.transcendentals / machine.specials() * uneven;
  const double by_memory = out.memory_bytes() / machine.memory_rate;
  const double seconds = std::max(lanes + special, by_memory);
  out.seconds = seconds + launch;
  out.busy = {0, special / out.seconds, lanes / out.seconds, 0, 0, by_memory / out.seconds};
  name_what_binds(out, false, out.product_flops > out.element_flops);
  return out;
}

}  // namespace

double KernelCost::memory_bytes() const {
  double bytes = 0;
  for (const auto& [tensor, traffic] : memory) bytes += traffic.read + traffic.written;
  return bytes;
}

double KernelCost::bytes_alone() const {
  double bytes = 0;
  for (const auto& [tensor, traffic] : alone) bytes += traffic.read + traffic.written;
  return bytes;
}

double Cost::seconds() const {
  double sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel.seconds;
  return sum;
}

double Cost::memory_bytes() const {
  double sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel.memory_bytes();
  return sum;
}

Cost predict(const tile::Program& program, const Target& target, const std::map<std::string, std::int64_t>& extents) {
  const Machine& machine = machine_of(target);
  Values values = launch_extents(program, target, extents);
  values.insert(program.known.begin(), program.known.end());
  Cache cache(machine.l2_size * machine.l2_share);
  Cost out;
  for (const tile::Kernel& kernel : program.kernels) {
    Cache empty(machine.l2_size * machine.l2_share);
    const double launch = out.kernels.empty() ? machine.launch : machine.next_launch;
    if (!target.is_cuda() || kernel.threads() == 0) {
      const KernelTiles tiles(program, kernel, values);
      out.kernels.push_back(on_cpu(tiles, tiles.memory_traffic(machine.multiprocessors, cache), machine, launch));
      out.kernels.back().alone = tiles.memory_traffic(machine.multiprocessors, empty, AtEnd::left);
      continue;
    }
    KernelModel model(program, kernel, target, values);
    out.kernels.push_back(model.run(model.tiles().memory_traffic(model.at_once(), cache), launch));
    out.kernels.back().alone = model.tiles().memory_traffic(model.at_once(), empty, AtEnd::left);
  }
  return out;
}

}  // namespace astatide::cost
