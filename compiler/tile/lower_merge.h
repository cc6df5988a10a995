#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/rewrite/derive_merge.h"
#include "compiler/tile/lower_elements.h"

// The states of parts of an axis, merged. Not an interface of the compiler.

namespace astatide::tile {

/// The name that a kernel gives the tile of a slot: an output of the same name is a tensor.
std::string tile_base_of(const Lowering& lowering, const Slot& slot);

/// A value of each part: a tensor's elements at places of the parts' axis and others, and what its tile is called.
struct StoredPart {
  Read read;
  std::vector<std::string> axes;
  std::string tile;
};

/// What the parts of a row have left in memory, and the states that it says.
struct StoredStates {
  PartStates states;
  std::map<std::string, StoredPart> parts;  // by the name that states have for it
};

/// The states themselves, by slot.
StoredStates states_in(const std::map<std::string, StoredTensor>& tensors);

/// Slots whose new values others move to. Throws UserError where such a one moves itself.
std::vector<const Slot*> references_of_moves(const Recurrence& recurrence);

/// What is done with merged states, which the builder has as the values of the slots.
using FinishMerge = std::function<void(KernelBuilder& builder, Block& block)>;

/// Computes the outputs of states and stores them.
void add_outputs(const Recurrence& recurrence, KernelBuilder& builder, Block& block);

/// The kernel that merges the states of parts and writes the outputs: a row a tile. `references` are read by the moves
/// of other slots, and nothing moves them.
Kernel lower_merge(Lowering& lowering, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                   const Placement& placement, const StoredStates& states, const std::string& kernel);

/// The loops over blocks beside that over the parts: blocks at one place of all of these merge their states.
std::vector<const NestLoop*> loops_that_share(const Lowering& lowering, const Nest& nest);

/// The same by the last of the blocks of `builder`'s kernel that make the parts: what stands behind all else there.
/// `counters` has one for each place of loops_that_share.
Block merge_by_last_block(KernelBuilder& builder, const Recurrence& recurrence,
                          const std::vector<const Slot*>& references, const Placement& placement,
                          const StoredStates& states, const std::string& counters);

/// The states of a block's teams, by the threads of all of them: what stands behind the teams' loop.
Block merge_teams(KernelBuilder& builder, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                  const Placement& placement, const StoredStates& states, const FinishMerge& finish);

}  // namespace astatide::tile
