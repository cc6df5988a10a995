#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/cost/cost.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/approximations.h"
#include "compiler/tile/statistics.h"
#include "compiler/visible.h"

namespace astatide {

/// What a machine of a target can do at best: of the product that stands for a GPU (cost/machine.h); none for the CPU,
/// whose clock and memory differ too much.
struct Peak {
  std::string product;         // "H200 SXM"
  double flops = 0;            // f32 without tensor cores, a second
  double bytes = 0;            // of device memory, a second
  double transcendentals = 0;  // exp2 and the like, a second
};
std::optional<Peak> peak_of(const Target& target);

/// The last axis of a tile where tensor cores take more columns than the axis has.
struct Padding {
  std::string axis;
  int used = 0;      // columns that the axis has, such as a head size of 72
  int computed = 0;  // that products take, such as 80
  int held = 0;      // that the storage has, such as 128 in two panels

  /// Shares of the work of products with this tile, and of its bytes, that go into columns that the axis has not.
  double wasted_work() const { return 1 - static_cast<double>(used) / computed; }
  double wasted_bytes() const { return 1 - static_cast<double>(used) / held; }
};

/// A tile of a kernel: where it lives and what it takes.
struct BufferUse {
  std::string name;
  Space space = Space::register_file;
  ScalarType type = ScalarType::f32;
  std::vector<tile::Dim> dims;
  int ring = 1;
  std::int64_t bytes = 0;  // of a block; all slots and padding included
  std::string alias;       // the tile whose storage it shares
  std::optional<Padding> padding;
};

/// The least time of a kernel by each of what it needs, in seconds.
struct Roofline {
  double arithmetic = 0, transcendentals = 0, memory = 0;
  double least() const;
  /// "arithmetic", "special functions" or "memory".
  std::string binds() const;
};

struct KernelUse {
  tile::KernelStatistics statistics;
  std::vector<BufferUse> buffers;
  int threads = 0;        // of a block; 0 on the CPU
  int registers = 0;      // of a thread, at least: its fragments
  int blocks_per_sm = 0;  // at most
  std::string limited_by;
  /// Each tensor counted once, or less where less of it is touched: what must cross the memory bus whatever the caches
  /// do.
  double compulsory_bytes = 0;
  std::optional<Roofline> roofline;
  /// Of tiles that loops run over, as text: "j_o_end = ..".
  std::vector<std::string> ranges;
};

/// What a lazy or optimistic reference leaves of the range of f32 sums.
struct RescaleUse {
  RescaleMode mode = RescaleMode::plain;
  int grow = 0, over = 0;  // log2, as compiled
  /// By input: products of weights with it stay finite while its elements are smaller than this.
  std::map<std::string, double> largest;
};

/// A function that an instruction approximates, and the kernels that compute it.
struct ApproximationUse {
  Approximation approximation;
  std::vector<std::string> kernels;
};

/// An axis that is reduced in parts (rfactor), whose states a kernel merges: the last one, or the last of the blocks
/// that make them.
struct PartsUse {
  std::string axis;
  std::int64_t parts = 0;
  std::int64_t tiles = 0, tiles_each = 0;  // along the axis, and of a part, at most
  std::int64_t teams = 1;                  // of a block, which share its part
  bool chosen = false;                     // by each launch; here for the target's machine
  MergeBy merge = MergeBy::kernel;
  double merge_bytes = 0;  // of states, from and to global memory
};

/// The order in which a row's elements are reduced: what its bits depend on beside the elements.
struct ReductionTree {
  std::string axis;
  std::int64_t elements = 0, tile = 0;
  std::uint64_t hash = 0;  // of the program after the last pass, of the length of the axis and the number of its parts
};

/// What a schedule costs, before anything runs.
struct Explanation {
  Target target;
  std::optional<Peak> peak;
  std::vector<KernelUse> kernels;
  tile::Statistics statistics;
  cost::Cost cost;  // kernels in the same order
  /// Share of the products' work that `where` saves: 1 less the work done over the work without predicates. Without
  /// predicates 0; nothing where the algorithm without them can't be scheduled so.
  std::optional<double> skipped;
  VisibleWork work;  // of the algorithm, whatever tiles compute
  /// None where references move at once, or nothing has references.
  std::optional<RescaleUse> rescale;
  std::vector<ApproximationUse> approximations;
  std::optional<PartsUse> parts;
  ReductionTree tree;
};

/// Operations of products that tiles compute.
double product_flops(const tile::Statistics& statistics);

/// Compiles and counts. Throws UserError as compile does, and where `sizes` lacks an extent.
Explanation explain(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options);

}  // namespace astatide
