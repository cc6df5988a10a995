#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"

// Maps of which tiles conditions leave.

namespace astatide {

void check_mask_map(LegalityCheck& check) {
  for (const LoopNest& nest : check.nests) {
    const Directive* directive = nest.placement->find(DirectiveKind::mask_map);
    if (directive == nullptr) continue;
    const auto error = [&](const std::string& message, const std::string& note) {
      check.errors.error(directive->where, "mask_map of " + nest.root + ": " + message, {note, "leave mask_map out"});
    };
    if (check.schedule.rewrite == RewriteMode::none)
      error("the passes of rewrite: none each go over the whole axis, and a map is of one loop", "rewrite: online");
    if (nest.placement->rfactor())
      error("rfactor cuts " + nest.axis + " into parts of its tiles in their order, and a map has an order of its own",
            "leave rfactor out");
    if (nest.placement->find(DirectiveKind::cluster) != nullptr)
      error("blocks of a cluster copy the same tiles together, and each has a map of its own", "leave cluster out");
  }
}

}  // namespace astatide
