#pragma once

#include <string>
#include <vector>

#include "compiler/cost/traffic.h"

namespace astatide::cost {

struct KernelCost;

/// The tiles of a kernel for given extents: how many there are along each axis, and what those of each kind do. Tiles
/// differ along axes that loops, conditions and limits depend on; where there are many, a few stand for their
/// neighbours.
class KernelTiles {
 public:
  KernelTiles(const tile::Program& program, const tile::Kernel& kernel, const Values& values);

  std::int64_t count() const { return count_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// What the tile at a place does.
  const tile::KernelStatistics& at(const std::vector<std::int64_t>& place) const;
  /// A number that grows with the time that a tile takes.
  double work_at(const std::vector<std::int64_t>& place) const;
  double work_of(std::size_t sample) const { return work_[sample]; }
  /// Samples from the least to the most work, between which the others lie.
  std::vector<std::size_t> kinds() const;
  /// Extents and the place of a tile like the sample.
  Values values_of(std::size_t sample) const;
  /// Of all tiles.
  const std::map<std::string, tile::Traffic>& moved_by_tensor() const { return all_.global; }
  void add_to(KernelCost& cost) const;
  MemoryTraffic memory_traffic(std::int64_t at_once, Cache& cache, AtEnd end = AtEnd::written_back) const;

 private:
  std::size_t sample_at(const std::vector<std::int64_t>& place) const;
  std::vector<std::int64_t> place_of(std::int64_t number) const;

  const tile::Program& program_;
  const tile::Kernel& kernel_;
  const Values& values_;
  std::vector<std::int64_t> counts_;
  std::vector<std::size_t> differing_;  // axes
  std::int64_t count_ = 1, different_ = 1;
  std::vector<tile::KernelStatistics> samples_;
  std::vector<double> work_;
  tile::KernelStatistics all_;
};

}  // namespace astatide::cost
