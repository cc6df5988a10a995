#pragma once

#include "compiler/rewrite/recurrence.h"

namespace astatide {

/// Sets `gauge` of every maximum and minimum that other slots refer to: moves it in random states, moves the other
/// slots with it, and compares the outputs. A false "yes" needs an accident of measure zero. See README.md.
void find_gauges(Recurrence& recurrence);

}  // namespace astatide
