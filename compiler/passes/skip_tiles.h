#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// On GPUs, tiles of a grid that is as large as the longest item needs: where all that a kernel stores lies before a
/// limit that a tensor gives, as the rows of an item of a batch do, a tile that begins behind it is left out, and what
/// asks for that inside of the others goes.
tile::Program skip_tiles(const tile::Program& program, const Target& target);

}  // namespace astatide
