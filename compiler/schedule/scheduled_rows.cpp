#include "compiler/schedule/scheduled_rows.h"

#include "compiler/rewrite/regroup_rows.h"
#include "compiler/schedule/directives.h"

namespace astatide {
namespace {

/// Rows are the same for all definitions, so one placement says what they are.
const Placement* placement_with(const Schedule& schedule, DirectiveKind kind, Diagnostics& errors) {
  const Placement* found = nullptr;
  for (const Placement& placement : schedule.placements) {
    const Directive* directive = placement.find(kind);
    if (directive == nullptr) continue;
    if (found != nullptr) {
      const std::string key(directive_info(kind).key);
      errors.error(directive->where,
                   key + " of " + placement.name + ": " + found->name +
                       " has it already, and all definitions have the " + "rows that it names",
                   {"leave it out"});
    }
    if (found == nullptr) found = &placement;
  }
  return found;
}

}  // namespace

Cascade cascade_of(const Algorithm& algorithm, const Schedule& schedule) {
  const Cascade cascade = find_cascade(algorithm);
  Diagnostics errors;
  RowGroups groups;
  if (const Placement* placement = placement_with(schedule, DirectiveKind::split, errors))
    for (const auto& [axis, into] : placement->split())
      groups.splits.push_back({axis, into[0], into[1], placement->name, placement->find(DirectiveKind::split)->where});
  if (const Placement* placement = placement_with(schedule, DirectiveKind::fuse, errors))
    for (const auto& [fused, axes] : placement->fuse())
      groups.fusions.push_back({fused, axes, placement->name, placement->find(DirectiveKind::fuse)->where});
  Cascade out = regroup_rows(cascade, groups, algorithm, errors);
  errors.throw_if_any();
  return out;
}

}  // namespace astatide
