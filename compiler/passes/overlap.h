#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Where a kernel asks for it, turns each chain of loops [ahead middle delayed]* into ahead middle ([ahead delayed'
/// middle])* delayed: the product that nothing in its iteration waits for, and what scales its result, run one
/// iteration later, behind the product of the next tile; both are started with a token. An await stands where the first
/// statement conflicts with what is open, that of the delayed product behind a part of the columns of the map that it
/// reads (the schedule's cover). All loops of a chain delay the same; what the first tile lacks of it is made neutral
/// there. Needs peel_first; runs before stage_tiles, whose copies follow the moved views. Throws UserError where the
/// products depend on each other, or there are more than two.
tile::Program overlap(const tile::Program& program, const Target& target);

}  // namespace astatide
