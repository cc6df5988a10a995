#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Gives the blocks of a grid the tiles of the longest loops first, so that short ones fill what is left at its end,
/// and persistent blocks where a schedule asks for that: a tile axis along which the loops of a kernel grow is walked
/// downwards. An axis along which they shrink, or neither, stays as it is. Of persistent blocks the first axis that is
/// walked downwards becomes the first of all, and the tiles of the others are taken in groups: as many together as find
/// what their loops stream in the L2 cache. Runs when loops have their bounds; linear is left as the only order.
tile::Program order_tiles(const tile::Program& program, const Target& target);

}  // namespace astatide
