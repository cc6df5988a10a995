#pragma once

#include "compiler/rewrite/guard.h"
#include "compiler/rewrite/recurrence.h"

namespace astatide {

/// Chooses for each element the value that it holds where it is absent: one of -inf, 0 and +inf, at which every term
/// that reads it equals the unit of its reduction, whatever else the term reads (random probes; references also at
/// their units). Terms that no such value suits, and terms that read no element, get `masked`.
void choose_absent_values(Cascade& cascade);
void choose_absent_values(Recurrence& recurrence);

GuardFacts guard_facts(const Cascade& cascade);

}  // namespace astatide
