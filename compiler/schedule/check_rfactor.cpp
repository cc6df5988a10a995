#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Parts of the axis that is reduced, each with blocks of its own.

namespace astatide {
namespace {

void check_one(LegalityCheck& check, const LoopNest& nest, const Directive& directive) {
  const AxisParts parts = *nest.placement->rfactor();
  const auto error = [&](const Location& where, const std::string& message, std::vector<std::string> notes) {
    check.errors.error(where, "rfactor of " + nest.root + ": " + message, std::move(notes));
  };
  const LoopName loop = nest.axis + ".s";
  if (parts.axis != nest.axis) {
    const std::string written = "rfactor: {" + nest.axis + ": [" + loop + ", " + std::to_string(parts.parts) + "]}";
    return error(directive.where, parts.axis + " is not the axis that " + nest.root + " reduces, that is " + nest.axis,
                 {written});
  }
  if (check.schedule.rewrite == RewriteMode::none)
    return error(directive.where,
                 "rewrite: none passes over all of " + nest.axis +
                     " once for each reduction; only the one state that rewrite: online carries can be merged of parts",
                 {"rewrite: online"});
  const std::vector<LoopName> blocks = nest.placement->blocks();
  if (nest.consistent && !contains(blocks, loop)) {
    std::vector<LoopName> with = {loop};
    with.insert(with.end(), blocks.begin(), blocks.end());
    error(directive.where,
          loop + " is not spread over blocks, and one block gains nothing by parts that it computes one by one",
          {std::string(check.least.is_cuda() ? "gpu_blocks" : "parallel") + ": [" + join(with) + "]"});
  }
  const auto bound = check.bound_of_axis(nest.axis);
  const std::int64_t tile = nest.placement->tile_of(nest.axis).value_or(0);
  if (bound && *bound <= tile)
    error(directive.where,
          nest.axis + " is bounded by " + std::to_string(*bound) + ", which one tile of " + std::to_string(tile) +
              " holds, so it would have no effect",
          {"leave rfactor out", "smaller tiles along " + nest.axis});
  if (const Directive* persistent = nest.placement->find(DirectiveKind::persistent))
    error(
        persistent->where,
        "persistent deals out more tiles than blocks fit a GPU, one after the other, and parts are for fewer; the two "
        "together are not there",
        {"leave persistent out", "leave rfactor out"});
  if (const Directive* copy = nest.placement->find(DirectiveKind::copy);
      copy != nullptr && nest.placement->copy() == CopyPath::tma)
    error(copy->where, "tma stores tiles of rows, and the kernel that merges parts writes " + nest.root + " row by row",
          {"copy: vector"});
}

}  // namespace

void check_rfactor(LegalityCheck& check) {
  for (const LoopNest& nest : check.nests)
    if (const Directive* directive = nest.placement->find(DirectiveKind::rfactor)) check_one(check, nest, *directive);
}

}  // namespace astatide
