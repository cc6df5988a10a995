#pragma once

#include "compiler/rewrite/part_states.h"

namespace astatide {

/// Whether states that outputs determine merge as the parts' own do: draws states, some of them empty, some with
/// references far apart, merges both kinds and compares the outputs. A false "yes" needs an accident of measure zero.
bool merges_alike(const Recurrence& recurrence, const PartStates& states);

/// What an output is in a row without elements, for some row constants.
double value_of_empty_row(const Recurrence& recurrence, const RowValue& output);

}  // namespace astatide
