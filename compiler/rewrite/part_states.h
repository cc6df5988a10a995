#pragma once

#include <map>
#include <string>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A state that the outputs of a part of the axis determine: finalize is solved for the slots, up to what no output
/// shows (a gauge). Merged with others it gives what the part's own state gives.
struct PartStates {
  std::map<std::string, Expr> of_slot;  // over outputs by name, and row constants
  /// What the parts have to agree in, which no output shows.
  std::vector<std::string> notes;
};

/// What a part gives for a slot: its move from the part's references to those of the whole, over outputs of the part
/// and new values (new_value_name).
Expr move_of_part(const Slot& slot, const PartStates& states);

/// Throws UserError where the outputs determine no such state, with what stays open and an output that would do, and
/// where an output is made with the length of the axis, which parts have less of.
PartStates derive_part_states(const Recurrence& recurrence);

/// The states of parts, one slot a line.
std::string print_part_states(const Recurrence& recurrence, const PartStates& states);

}  // namespace astatide
