#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Puts the first iteration of each chain of loops that is to be overlapped in front of it, as a loop that runs once.
/// Its body is that of the chain's loop that tests most, so it may be any tile. It runs in any case: where the chain's
/// range is empty, as a tile whose elements are all absent, which leaves every unit what it is. Runs before fold_units,
/// which makes assignments of the moves and merges in it. Throws UserError where no loop's body may stand for all.
tile::Program peel_first(const tile::Program& program, const Target& target);

}  // namespace astatide
