#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// A tile in registers that TMA is to store goes to a tile in shared memory first, rounded to the tensor's type: a slot
/// that is free when the copy before has read it. Runs in front of specialize_roles, which leaves that slot to the role
/// that computes the tile.
tile::Program stage_outputs(const tile::Program& program, const Target& target);

}  // namespace astatide
