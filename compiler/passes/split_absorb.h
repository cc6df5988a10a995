#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// On tensor cores, where a tile in registers is scaled by a number of its row and a 0 absorbs even an infinite one
/// (O / l of a row without elements), one vote finds whether any number of the warp's rows is infinite. The tile is a
/// plain product where none is: one instruction an element instead of three. Runs when row numbers have tiles.
tile::Program split_absorb(const tile::Program& program, const Target& target);

}  // namespace astatide
