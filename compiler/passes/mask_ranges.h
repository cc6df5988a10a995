#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide {

/// A side of a predicate that a search in a monotone tensor finds: of each row the elements from the place `count` on
/// are visible, or, where it `ends`, those before it. The place is over the coordinates of rows; whatever row of the
/// tile it is, it lies from `least` to `most`.
struct SearchedSide {
  bool ends = false;
  Expr count, least, most;
};

/// A predicate all of whose sides are searched for: it holds where all of them do.
struct SearchedPredicate {
  Expr predicate;
  std::vector<SearchedSide> sides;
};

/// Which iterations of a loop over tiles see some element, and which see all, as far as interval analysis tells.
struct MaskRange {
  // Each a lower or upper bound of the loop variable, exclusive at the end; the tightest of each list holds.
  std::vector<Expr> any_begin, any_end, full_begin, full_end;
  /// Predicates that the full iterations still must test: they say nothing about the loop's axis, or not affinely.
  std::vector<Expr> residual;
  /// Axes whose limit full iterations need not test.
  std::vector<std::string> whole_axes;
  /// Inequalities e <= 0, of the limit and of predicates, that hold for every element of full iterations.
  std::vector<Expr> hold;
  std::vector<SearchedPredicate> searched;
};

/// The range of a masked map inside `loop`, of all blocks of a cluster together.
MaskRange mask_range(const tile::Map& map, const tile::For& loop, const tile::Program& program,
                     const tile::Kernel& kernel);
/// The same for the rows of one of `warpgroups` that share out the rows of the map's tile evenly, the first to the
/// first: that of number `warpgroup`.
MaskRange mask_range_of_warpgroup(const tile::Map& map, const tile::For& loop, const tile::Program& program,
                                  const tile::Kernel& kernel, const Expr& warpgroup, int warpgroups);

}  // namespace astatide
