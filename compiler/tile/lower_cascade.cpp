#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {

Program lower_cascade(const Algorithm& algorithm, const Cascade&, const Schedule& schedule, const LowerOptions&) {
  throw UserError(schedule.where, "rewrite: none of " + algorithm.name + " is not lowered yet");
}

}  // namespace astatide::tile
