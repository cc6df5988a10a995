// Shipped schedules with other numbers and words: legal and illegal ones.
#pragma once

#include <string>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "tests/support/random_attention.h"

namespace astatide::testing {

/// The shipped schedule with small tiles and a few directives added, changed or taken away, for an algorithm whose
/// definitions and inputs have the names that shipped schedules use; what it lacks is left out. Every directive of the
/// table can come; whether all together are legal is for check_legal to say.
Schedule mutated(const Schedule& shipped, const Algorithm& algorithm, Dice& dice);

/// The same schedule with one directive less, each, where nothing else depends on it.
std::vector<Schedule> smaller(const Schedule& schedule);

}  // namespace astatide::testing
