#pragma once

#include <vector>

#include "compiler/rewrite/recurrence.h"
#include "compiler/tile/lower_elements.h"

// What `rescale` of a schedule makes of a recurrence. Not an interface of the compiler.

namespace astatide::tile {

/// Throws UserError where these references, all of the recurrence, can't fall behind, or, with rescale: optimistic, no
/// sum shows that they have.
void check_rescale(const Schedule& schedule, const Recurrence& recurrence, const std::vector<const Slot*>& references);

/// Some reference is watched through this slot: its sum over one tile is needed by itself.
bool is_witness(const Schedule& schedule, const std::vector<const Slot*>& references, const Slot& slot);

/// The narrowest type that a product in the block rounds its left operand to.
ScalarType narrowest_weights(const Block& block, const Kernel& kernel);

}  // namespace astatide::tile
