#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Expands every advance into maps: new references, moves of everything that is relative to the old ones, then the
/// references themselves. One with a slack becomes a vote on whether some reference falls too far behind, and the maps
/// under its flag. Where it has witnesses, and no map of its block has absent elements, the block first computes the
/// sums with the references as they are; a vote on them decides whether the tile is computed again, with an advance
/// (try_references). Throws UserError where no block can be tried so. Runs before hoist_row_invariants.
tile::Program relax_rescale(const tile::Program& program, const Target& target);

}  // namespace astatide
