#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// A map over a tile without predicates whose result one other map alone reads is written into that one: a tile that is
/// tried without a maximum is scaled where its weights are computed. From here on no map makes a tile for one map
/// alone.
tile::Program forward_maps(const tile::Program& program, const Target& target);

}  // namespace astatide
