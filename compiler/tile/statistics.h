#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide::tile {

/// Bytes between a kernel and one tensor in global memory. Every copy counts, whether a cache answers it or not.
struct Traffic {
  double read = 0, written = 0;
};

/// What a launch of one kernel does, all its tiles together. Counted as the program says: a tile is computed whole,
/// padding included; of a tile at a tensor's edge only what lies inside is moved.
struct KernelStatistics {
  std::string name;
  double tiles = 0;                       // of the grid
  double product_flops = 0;               // a multiplication and an addition are two
  double element_flops = 0;               // arithmetic of maps and reductions
  double transcendentals = 0;             // exp, exp2, log, log2, tanh, sigmoid, sqrt, pow
  std::map<std::string, Traffic> global;  // by tensor
  /// A statement counts a shared tile once, however many threads read an element.
  Traffic shared;
  /// Allocated for one block: what plan_memory has decided, else the sum of the shared tiles.
  std::int64_t shared_bytes = 0;

  double global_bytes() const;
  /// The counts of `other`, so many times; not its tiles.
  void add(const KernelStatistics& other, double times);
};

struct TensorSize {
  std::string name;
  Tensor::Role role = Tensor::Role::input;
  double bytes = 0;
};

/// Numbers of a program for given extents, for `explain`.
struct Statistics {
  std::vector<KernelStatistics> kernels;
  std::vector<TensorSize> tensors;
  /// False where loops were sampled (more than some thousand different trip counts), or bounds depend on data: then
  /// they count as in full, and a condition as true unless it is cold.
  bool exact = true;

  double flops() const;  // products and elements
  double global_bytes() const;
  /// Of tensors that only carry values between kernels or loops.
  double scratch_bytes() const;
};

/// The value of a bound, as extents alone give it; none where it depends on data, or on a name that has no value.
std::optional<std::int64_t> value_without_data(const Expr& e, const std::map<std::string, std::int64_t>& values);

/// Names that the counts of a block depend on: those in loop bounds, conditions and limits, through lets.
std::set<std::string> control_names(const Block& block);

/// What one tile of a kernel does; `extents` has the place of the tile along each of its axes, too.
KernelStatistics statistics_of_tile(const Program& program, const Kernel& kernel,
                                    const std::map<std::string, std::int64_t>& extents);

/// Throws InternalError where an extent has no value.
Statistics statistics_of(const Program& program, const std::map<std::string, std::int64_t>& extents);

}  // namespace astatide::tile
