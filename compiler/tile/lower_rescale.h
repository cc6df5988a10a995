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

/// Throws UserError where the product of a slot rounds weights to f16 that nothing bounds, and the sum that would have
/// kept them small divides at the end only: the algorithm as it is written has no number as large.
void check_weight_range(const Recurrence& recurrence, const Slot& slot, ScalarType weights);

}  // namespace astatide::tile
