#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Honours the kernel's stagings: at the loop that a staging names, the tiles of its tensor that products read are
/// copied into a tile, f32, in front of their first use. With a ring of n slots the copy runs n - 1 iterations ahead:
/// the first n - 1 stand in front of the loop, and each iteration acquires the oldest slot and releases it at its end.
/// From here on the operands of products that a schedule stages are tiles, and there are no stagings.
tile::Program stage_tiles(const tile::Program& program, const Target& target);

}  // namespace astatide
