#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Gives the blocks of a grid the tiles of the longest loops first, so that short ones fill what is left at its end,
/// and persistent blocks where a schedule asks for that: a tile axis along which the loops of a kernel grow is walked
/// downwards. An axis along which they shrink, or neither, stays as it is.
/// Runs when loops have their bounds; linear is left as the only order.
tile::Program order_tiles(const tile::Program& program, const Target& target);

}  // namespace astatide
