#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/cost/steps.h"
#include "compiler/tile/statistics.h"

// What crosses the bus of the device's memory, by one rule: blocks that run at once go through what they read together,
// so a part of a tensor that several of them read comes once; it stays in the L2 cache until parts that were touched
// after it fill that, and what was written to it goes to memory then, or at the end.

namespace astatide::cost {

/// Parts of tensors in L2, the one that was touched longest ago first to go.
class Cache {
 public:
  explicit Cache(double bytes) : capacity_(bytes) {}

  /// Whether the part was there. What goes to make room was `written` bytes that memory has not seen.
  bool touch(std::uint64_t part, int tensor, double bytes, bool write);
  /// Bytes of each tensor that have gone to memory since the last call, those still here included where `all`.
  std::map<int, double> take_written(bool all);
  /// Bytes of each tensor that are written here and have not gone to memory.
  std::map<int, double> dirty() const;

 private:
  struct Entry {
    std::uint64_t part;
    int tensor;
    double bytes, dirty;
  };
  void drop_last();

  double capacity_, held_ = 0;
  std::list<Entry> entries_;  // touched last first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> places_;
  std::map<int, double> written_;
};

/// One kernel's reads or writes of one tensor, in one loop over it.
struct Stream {
  std::string tensor;
  bool write = false;
  /// Loops inside a tile that go over the same bytes again, at most so many times.
  double repeats = 1;
  /// By tile axis, for each place along it: equal numbers mean the same part.
  std::vector<std::vector<std::int64_t>> parts;
  double share = 1;  // of what a tile moves of the tensor
};
std::vector<Stream> streams_of(const tile::Kernel& kernel, const std::vector<std::int64_t>& counts,
                               const Values& values);

/// The tiles of a kernel in the order in which blocks take them: `f` gets the place along each axis, until it returns
/// false.
void visit_tiles(const tile::Kernel& kernel, const std::vector<std::int64_t>& counts, const Values& values,
                 const std::function<bool(const std::vector<std::int64_t>&)>& f);

/// Bytes from and to memory, by tensor.
using MemoryTraffic = std::map<std::string, tile::Traffic>;
/// What is written and still in L2 as a kernel ends: written back all the same, or left there, where no counter of the
/// kernel's time sees it.
enum class AtEnd { written_back, left };
/// `at_once`: blocks that run together. `moved`: by tensor, what the tile at a place moves.
MemoryTraffic memory_traffic(
    const tile::Program& program, const tile::Kernel& kernel, const std::vector<std::int64_t>& counts,
    const Values& values, std::int64_t at_once,
    const std::function<const tile::KernelStatistics&(const std::vector<std::int64_t>&)>& moved, Cache& cache,
    AtEnd end = AtEnd::written_back);

}  // namespace astatide::cost
