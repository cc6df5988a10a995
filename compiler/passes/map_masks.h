#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Where a kernel asks for it (mask_map), three kernels in front of it find for each of its tiles which tiles of the
/// reduced axis the predicates of its loop leave empty, cut, or whole, by computing the predicates themselves: for
/// those that no interval tells. They leave the tiles' numbers in a tensor, the whole ones first, then those that are
/// cut; the loop becomes one over the whole ones, which tests nothing, and one over the others. Tiles without an
/// element are not run. Throws UserError where the loop's predicates are not its own. Runs before split_masked_loops,
/// which has nothing left to split there.
tile::Program map_masks(const tile::Program& program, const Target& target);

}  // namespace astatide
