#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Where a loop runs once and what it carries has just been filled with a unit, drops the moves of units and the merges
/// with them: advance becomes an assignment, an accumulation a plain reduction or product, and the fill goes. So one
/// tile that covers the whole axis carries no rescale. Runs before relax_rescale.
tile::Program fold_units(const tile::Program& program, const Target& target);

}  // namespace astatide
