#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/rewrite/recurrence.h"
#include "compiler/tile/lower_nest.h"

// The states of parts of an axis, merged. Not an interface of the compiler.

namespace astatide::tile {

/// The name that a kernel gives the tile of a slot: an output of the same name is a tensor.
std::string tile_base_of(const Lowering& lowering, const Slot& slot);

/// The kernel that merges the states which the parts of a row have left in `states`, by slot, and writes the outputs:
/// a row a tile. `references` are read by the moves of other slots, and nothing moves them.
Kernel lower_merge(Lowering& lowering, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                   const Placement& placement, const std::map<std::string, StoredTensor>& states);

}  // namespace astatide::tile
