#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/rewrite/fresh_names.h"
#include "compiler/tile/lower.h"

// What the kernels of one program share while they are lowered, and the loops of one kernel. Not an interface of the
// compiler.

namespace astatide::tile {

/// A tensor in global memory over whole axes.
struct StoredTensor {
  std::string tensor;
  std::vector<std::string> axes;
};

/// The axes of a cascade or recurrence, and the program that its kernels join.
class Lowering {
 public:
  Lowering(const Algorithm& algorithm, const Schedule& schedule, const LowerOptions& options, std::string axis,
           std::vector<std::string> rows, std::map<std::string, Expr> axis_extents,
           const std::vector<RowValue>& values);

  const Algorithm& algorithm;
  const Schedule& schedule;
  const LowerOptions& options;
  const std::string axis;               // the one that is reduced
  const std::vector<std::string> rows;  // outermost first
  std::string parts_axis;               // that counts the parts of `axis`; empty: it is whole
  std::string teams_axis;               // ... and of those the parts of a block's teams; empty: a block has none
  Program program;
  FreshNames names;

  bool is_cuda() const { return options.target.is_cuda(); }
  const Expr& extent_of(const std::string& axis_name) const;
  /// That of a ragged axis is the one at the place of other axes' loops, and at most its extent.
  const Expr& length_of(const std::string& axis_name) const;
  bool is_ragged(const std::string& axis_name) const { return algorithm.lengths.contains(axis_name); }
  /// Where the elements along an axis end.
  Expr end_of(const std::string& axis_name) const;
  /// Throws UserError where an element varies with an axis that is neither a row nor reduced: no tile has it.
  void check_elements(const std::vector<Element>& elements) const;
  /// Of an axis that a tile covers whole. Throws UserError where it is not known.
  int known_extent(const std::string& axis_name);
  /// Largest value that the extent of an axis can have, if a bound, a known extent or an argument of the request says.
  std::optional<std::int64_t> bound_of(const std::string& axis_name) const;
  /// An axis that the algorithm has not, under a fresh name.
  std::string add_axis(const std::string& base, const Expr& extent);
  /// A tensor in global memory over whole axes, f32.
  std::string add_scratch(const std::string& base, const std::vector<std::string>& axes);
  /// A tensor in a block's shared memory, f32: a place for each team, and in it so many elements along the others.
  std::string add_block_tensor(const std::string& base, const std::vector<std::int64_t>& extents);
  /// Counters of blocks.
  std::string add_counters(const std::string& base, std::vector<Expr> dims);
  /// An extent that launches choose; who asks for it says by what.
  std::string add_chosen_extent(const std::string& base);

 private:
  std::map<std::string, Expr> axis_extents_;
};

/// One loop of a kernel: over the tiles of an axis, or over the axis itself, a step of one each. The loop over the
/// parts of the reduced axis is one over the axis of parts.
struct NestLoop {
  LoopName name;
  std::string axis, var;
  int step = 1;      // elements of a tile
  int turns = 1;     // tiles that an iteration deals out, one to each team
  std::string turn;  // whose the tile is; empty: an iteration has one tile
  Expr count;        // of iterations
  bool grid = false;
  bool descending = false;

  /// Elements along the axis of all tiles of an iteration.
  int stride() const { return step * turns; }
  /// First element of the tile.
  Expr origin() const;
};

/// The loops of a kernel, and how much of each axis its tiles cover.
struct Nest {
  std::vector<NestLoop> loops;  // outermost first
  std::string row;              // the axis of the rows of its tiles
  int rows = 1;
  std::string column;  // the axis that is reduced
  int columns = 1;
  std::map<std::string, int> cut;  // axes beyond rows and columns of which a tile holds a part, and how much
  Location where;

  const NestLoop* over(const std::string& axis) const;
  const NestLoop* named(const LoopName& loop) const;
  /// The axis has more than one element in a tile, or names the rows or columns of tiles.
  bool is_tile_axis(const std::string& axis) const;
  /// Elements along an axis in a tile.
  int step_of(const std::string& axis) const;
};

/// The loops that a definition's placement asks for; loop variables get fresh names. Throws UserError where no tile has
/// such rows.
Nest make_nest(Lowering& lowering, const Placement& placement, FreshNames& names);

}  // namespace astatide::tile
