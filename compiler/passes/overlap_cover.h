#pragma once

#include <string>

#include "compiler/rewrite/fresh_names.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Puts the await of the delayed product into the middle of an iteration, behind the schedule's part of the columns of
/// the map that computes what the product reads. The map, and the reductions of its tile that follow it at once, are
/// done in two parts of columns. Where the product reads the map's own tile, its next value waits in registers.
tile::Block with_covered_await(tile::Block middle, const tile::Stmt& delayed, tile::Kernel& kernel, FreshNames& names);

}  // namespace astatide
