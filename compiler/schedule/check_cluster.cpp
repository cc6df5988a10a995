#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Blocks that share what they copy.

namespace astatide {
namespace {

/// Operands of the nest whose tiles are the same at all steps of a loop.
std::vector<std::string> same_along(const LegalityCheck& check, const LoopNest& nest, const LoopName& loop) {
  std::vector<std::string> same, others;
  for (const Operand& operand : check.operands) {
    const std::vector<const LoopNest*> nests = check.nests_of(operand.name);
    if (std::find(nests.begin(), nests.end(), &nest) == nests.end()) continue;
    (operand.axes.contains(axis_of_loop(loop)) ? others : same).push_back(operand.name);
  }
  std::erase_if(same, [&](const std::string& name) { return contains(others, name); });
  return same;
}

void check_cluster_of(LegalityCheck& check, const LoopNest& nest, const Directive& directive) {
  const auto error = [&](const std::string& message, std::vector<std::string> notes) {
    check.errors.error(directive.where, "cluster of " + nest.root + ": " + message, std::move(notes));
  };
  if (check.least.name != "sm_90a")
    return error("clusters are of sm_90a, the schedule's target is " + check.least.name,
                 {"target: sm_90a", "leave cluster out"});
  if (check.schedule.warps.empty())
    return error("what blocks share is copied by tma, which needs a producer", {"warps: {producer: 1, consumer: 2}"});
  const std::vector<LoopName> blocks = nest.placement->blocks();
  if (blocks.empty()) return error("one block computes all, it has no neighbour", {"leave cluster out"});
  if (!nest.consistent || !same_along(check, nest, blocks.front()).empty()) return;
  std::vector<std::string> notes;
  for (const LoopName& loop : blocks) {
    const std::vector<std::string> same = same_along(check, nest, loop);
    if (!same.empty()) notes.push_back("along " + loop + " they share " + join(same) + ": name it first in gpu_blocks");
  }
  notes.emplace_back("leave cluster out");
  error("blocks that are neighbours along " + blocks.front() + " read no tile in common, it would have no effect",
        std::move(notes));
}

}  // namespace

void check_cluster(LegalityCheck& check) {
  for (const LoopNest& nest : check.nests)
    if (const Directive* directive = nest.placement->find(DirectiveKind::cluster))
      check_cluster_of(check, nest, *directive);
}

}  // namespace astatide
