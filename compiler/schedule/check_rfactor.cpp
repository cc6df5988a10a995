#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Parts of the axis that is reduced, each with blocks of its own, and those of teams of threads in a block.

namespace astatide {
namespace {

void check_parts(LegalityCheck& check, const LoopNest& nest, const Directive& directive) {
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
  if (!nest.cut.empty())
    error(directive.where,
          "tiles hold parts of " + join(nest.cut) +
              ", and the blocks of all of them would store the states that have no such axis; the two together are not "
              "there",
          {"leave " + nest.cut.front() + " out of tile", "leave rfactor out"});
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
  const std::int64_t whole = tile * parts.teams;
  if (parts.size != 0 && whole != 0 && parts.size % whole != 0)
    error(directive.where,
          "parts of " + std::to_string(parts.size) + " elements are no whole number of tiles of " +
              std::to_string(tile) + (parts.teams > 1 ? " for each of " + std::to_string(parts.teams) + " teams" : ""),
          {"split_size: " + std::to_string(std::max<std::int64_t>(1, parts.size / whole) * whole)});
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

/// Teams of a block: what they can't share, and what is theirs alone.
void check_teams(LegalityCheck& check, const LoopNest& nest, const Directive& directive) {
  const AxisParts parts = *nest.placement->rfactor();
  const auto error = [&](const Location& where, const std::string& message, std::vector<std::string> notes) {
    check.errors.error(where, "rfactor of " + nest.root + ": " + message, std::move(notes));
  };
  const std::string teams = std::to_string(parts.teams) + " teams";
  if (!check.least.is_cuda())
    return error(directive.where, teams + " of threads, and a core of a CPU has one",
                 {"leave " + parts.team_loop + " out: more parts keep more cores busy"});
  if (!check.schedule.warps.empty())
    error(directive.where,
          teams +
              " beside warps: a producer copies for all consumers of a block, and teams copy for "
              "themselves",
          {"leave warps out, with copy: cp_async and threads: [8, 4]", "leave " + parts.team_loop + " out"});
  if (check.family_of(nest) == Family::wgmma)
    error(directive.where, teams + " beside mma: wgmma, which is of warps", {"mma: mma_sync"});
  if (const Directive* cluster = nest.placement->find(DirectiveKind::cluster))
    error(cluster->where, "blocks of a cluster copy for each other, and teams copy for themselves",
          {"leave cluster out"});
  const std::vector<LoopName> blocks = nest.placement->blocks();
  if (contains(blocks, parts.team_loop)) {
    std::vector<LoopName> without = blocks;
    std::erase(without, parts.team_loop);
    return error(directive.where, parts.team_loop + " is spread over blocks, and it runs over the teams of one",
                 {"gpu_blocks: [" + join(without) + "]"});
  }
  if (nest.consistent) {
    std::vector<LoopName> order(nest.order.begin(), nest.order.begin() + static_cast<std::ptrdiff_t>(nest.block_loops));
    order.push_back(parts.team_loop);
    order.push_back(nest.axis_loop());
    if (order != nest.order)
      error(directive.where,
            "between the loops over blocks and " + nest.axis_loop() + " stands " + parts.team_loop +
                " and nothing else: a team has one state",
            {"reorder: [" + join(order) + "]"});
    for (const Placement& input : check.schedule.placements)
      if (const auto at = input.stage_at(); at && contains(blocks, *at) && check.is_in(input.name, nest))
        check.errors.error(input.find(DirectiveKind::stage_at)->where,
                           "stage_at of " + input.name + ": at " + *at + " one copy would be for all " + teams +
                               ", and each waits for its own alone",
                           {"stage_at: " + parts.team_loop});
  }
  // Barrier 0 is that of the block, and roles have the last.
  constexpr std::int64_t kNamedBarriers = 14, kWarp = 32;
  const auto threads = check.schedule.threads_of(*nest.placement);
  if (threads && std::int64_t{threads->first} * threads->second > kWarp && parts.teams > kNamedBarriers)
    error(directive.where,
          teams + " of more than a warp meet at barriers of their own, of which there are " +
              std::to_string(kNamedBarriers),
          {"threads: [8, 4]", "at most " + std::to_string(kNamedBarriers) + " teams"});
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
    if (const Directive* directive = nest.placement->find(DirectiveKind::rfactor)) {
      check_parts(check, nest, *directive);
      if (!nest.placement->rfactor()->team_loop.empty()) check_teams(check, nest, *directive);
    }
}

}  // namespace astatide
