#include "compiler/cost/kernel_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/cost/cost.h"

namespace astatide::cost {
namespace {

constexpr std::int64_t kMostSamples = 32;
/// Tiles whose work differs by less are of one kind.
constexpr double kAlike = 0.03;

double work_of_tile(const tile::KernelStatistics& tile) {
  double bytes = 0;
  for (const auto& [tensor, traffic] : tile.global) bytes += traffic.read + traffic.written;
  return tile.product_flops + tile.element_flops + 8 * tile.transcendentals + bytes;
}

}  // namespace

KernelTiles::KernelTiles(const tile::Program& program, const tile::Kernel& kernel, const Values& values)
    : program_(program), kernel_(kernel), values_(values) {
  const std::set<std::string> control = tile::control_names(kernel.body);
  for (std::size_t n = 0; n < kernel.tiles.size(); ++n) {
    counts_.push_back(std::max<std::int64_t>(0, evaluate_integer(kernel.tiles[n].count, values)));
    count_ *= counts_.back();
    if (!control.contains(kernel.tiles[n].var)) continue;
    differing_.push_back(n);
    different_ *= counts_.back();
  }
  all_.name = kernel.name;
  if (count_ == 0) return;
  const std::int64_t samples = std::min(different_, kMostSamples);
  for (std::int64_t n = 0; n < samples; ++n) {
    samples_.push_back(tile::statistics_of_tile(program, kernel, values_of(static_cast<std::size_t>(n))));
    work_.push_back(work_of_tile(samples_.back()));
    all_.add(samples_.back(), static_cast<double>(count_) / static_cast<double>(samples));
  }
}

std::vector<std::int64_t> KernelTiles::place_of(std::int64_t number) const {
  std::vector<std::int64_t> place(counts_.size(), 0);
  for (const std::size_t axis : differing_) {
    place[axis] = number % counts_[axis];
    number /= counts_[axis];
  }
  return place;
}

Values KernelTiles::values_of(std::size_t sample) const {
  const auto samples = static_cast<double>(std::min(different_, kMostSamples));
  // In the middle of those that it stands for.
  const auto number =
      static_cast<std::int64_t>((static_cast<double>(sample) + 0.5) * static_cast<double>(different_) / samples);
  const std::vector<std::int64_t> place = place_of(number);
  Values out = values_;
  for (std::size_t n = 0; n < place.size(); ++n) out[kernel_.tiles[n].var] = place[n];
  return out;
}

std::size_t KernelTiles::sample_at(const std::vector<std::int64_t>& place) const {
  std::int64_t number = 0, stride = 1;
  for (const std::size_t axis : differing_) {
    number += place[axis] * stride;
    stride *= counts_[axis];
  }
  return static_cast<std::size_t>(number * static_cast<std::int64_t>(samples_.size()) / different_);
}

const tile::KernelStatistics& KernelTiles::at(const std::vector<std::int64_t>& place) const {
  return samples_[sample_at(place)];
}

double KernelTiles::work_at(const std::vector<std::int64_t>& place) const { return work_[sample_at(place)]; }

std::vector<std::size_t> KernelTiles::kinds() const {
  std::vector<std::size_t> order(samples_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work_[a] < work_[b]; });
  std::vector<std::size_t> out;
  for (const std::size_t wanted : {order.front(), order[order.size() / 2], order.back()})
    if (out.empty() || work_[wanted] > work_[out.back()] * (1 + kAlike)) out.push_back(wanted);
  return out;
}

void KernelTiles::add_to(KernelCost& cost) const {
  cost.name = kernel_.name;
  cost.tiles = static_cast<double>(count_);
  cost.product_flops = all_.product_flops;
  cost.element_flops = all_.element_flops;
  cost.transcendentals = all_.transcendentals;
  cost.shared_bytes = all_.shared.read + all_.shared.written;
  cost.l2_bytes = all_.global_bytes();
}

MemoryTraffic KernelTiles::memory_traffic(std::int64_t at_once, Cache& cache, AtEnd end) const {
  if (count_ == 0) return {};
  return cost::memory_traffic(
      program_, kernel_, counts_, values_, at_once,
      [this](const std::vector<std::int64_t>& place) -> const tile::KernelStatistics& { return at(place); }, cache,
      end);
}

}  // namespace astatide::cost
