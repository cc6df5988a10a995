#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Splits each innermost loop over tiles of an axis by the predicates and limits of the maps inside into its empty,
/// full and partial tiles: empty ones are not run, full ones test nothing that bounds the axis. The bounds come from
/// interval analysis of the predicates over the other coordinates of a tile, so they hold for all lengths at run time
/// and need no mask in memory. A predicate that is not affine in the axis, and the limit of another axis, stay tested
/// in all tiles that the others leave. A loop that stores what it did not load runs for all tiles. Runs before
/// stage_tiles: staged copies are made for the split loops.
tile::Program split_masked_loops(const tile::Program& program, const Target& target);

}  // namespace astatide
