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
    const std::string written =
        "rfactor: {" + nest.axis + ": [" + loop + ", " + std::to_string(parts.parts != 0 ? parts.parts : 16) + "]}";
    return error(directive.where, parts.axis + " is not the axis that " + nest.root + " reduces, that is " + nest.axis,
                 {written});
  }
  if (check.schedule.rewrite == RewriteMode::none)
    return error(directive.where,
                 "rewrite: none passes over all of " + nest.axis +
                     " once for each reduction; only the one state that rewrite: online carries can be merged of parts",
                 {"rewrite: online"});
  if (check.schedule.deterministic && parts.is_automatic())
    error(
        directive.where,
        "auto chooses the number of parts by the other rows of a launch and by the machine, and a row's bits depend on "
        "it; the schedule says deterministic: true",
        {"rfactor: {" + nest.axis + ": [" + loop + ", {split_size: 1024}]}: parts follow from the row's length alone",
         "rfactor: {" + nest.axis + ": [" + loop + ", 16]}", "leave deterministic out"});
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
  if (parts.size != 0 && tile != 0 && parts.size % tile != 0)
    error(
        directive.where,
        "parts of " + std::to_string(parts.size) + " elements are no whole number of tiles of " + std::to_string(tile),
        {"split_size: " + std::to_string(std::max<std::int64_t>(1, parts.size / tile) * tile)});
  if (bound && parts.size >= *bound)
    error(directive.where,
          nest.axis + " is bounded by " + std::to_string(*bound) + ", which one part of " + std::to_string(parts.size) +
              " holds, so it would have no effect",
          {"leave rfactor out", "a smaller split_size"});
  if (const Directive* cluster = nest.placement->find(DirectiveKind::cluster);
      cluster != nullptr && nest.placement->merge() == MergeBy::last_block)
    error(
        cluster->where,
        "a block of a cluster behind the end of its axis computes another's tile again and would be counted twice, so "
        "no block knows that it is the last",
        {"merge: kernel", "leave cluster out"});
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
  for (const LoopNest& nest : check.nests) {
    const Directive* merge = nest.placement->find(DirectiveKind::merge);
    if (merge && !nest.placement->rfactor())
      check.errors.error(merge->where, "merge of " + nest.root + " would have no effect: no rfactor makes parts",
                         {"rfactor: {" + nest.axis + ": [" + nest.axis + ".s, 16]}", "leave merge out"});
  }
  for (const LoopNest& nest : check.nests)
    if (const Directive* directive = nest.placement->find(DirectiveKind::rfactor)) check_one(check, nest, *directive);
}

}  // namespace astatide
