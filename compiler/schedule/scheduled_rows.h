#pragma once

#include "compiler/rewrite/cascade.h"
#include "compiler/schedule/schedule.h"

namespace astatide {

/// The cascade of an algorithm over the rows that a schedule names: split and fuse are done. Throws UserError with all
/// that is wrong with those.
Cascade cascade_of(const Algorithm& algorithm, const Schedule& schedule);

}  // namespace astatide
