#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// What the rewrite demands of the loops, and bounds.

namespace astatide {
namespace {

void check_online(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) {
    const NameRole role = check.role_of(placement.name);
    if (!placement.compute_root() || (role != NameRole::element && role != NameRole::weight)) continue;
    check.errors.error(placement.find(DirectiveKind::compute_root)->where,
                       "compute_root of " + placement.name +
                           ": rewrite: online computes it tile by tile, inside the loop over " + check.cascade.axis,
                       {"rewrite: none", "compute_at: the innermost loop of the output"});
  }
}

void check_none(LegalityCheck& check) {
  for (const LoopNest& nest : check.nests) {
    if (!nest.consistent || !nest.reduces || nest.order.back() == nest.axis_loop()) continue;
    std::vector<LoopName> order = nest.order;
    std::erase(order, nest.axis_loop());
    order.push_back(nest.axis_loop());
    const Directive* reorder = nest.placement->find(DirectiveKind::reorder);
    check.errors.error(reorder == nullptr ? nest.placement->where : reorder->where,
                       "reorder of " + nest.root + ": rewrite: none passes over " + nest.axis +
                           " once for each reduction, so " + nest.axis_loop() + " is the innermost loop",
                       {"reorder: [" + join(order) + "]", "rewrite: online carries the reductions in any order"});
  }
}

/// A tile that holds a whole row has to be sized when the kernel is compiled.
void check_rows_are_bounded(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) {
    const NameRole role = check.role_of(placement.name);
    const auto at = placement.compute_at();
    if (!at || (role != NameRole::element && role != NameRole::weight)) continue;
    const std::vector<LoopName> legal = check.legal_places(placement.name);
    if (std::find(legal.begin(), legal.end(), *at) == legal.end()) continue;
    for (const LoopNest* nest : check.nests_of(placement.name)) {
      if (!nest->consistent || nest->position(*at) >= nest->position(nest->axis_loop())) continue;
      const auto extent = check.cascade.axis_extents.find(nest->axis);
      if (extent == check.cascade.axis_extents.end() || check.bound_of_axis(nest->axis)) continue;
      std::vector<std::string> lacking;
      for (const std::string& name : free_variables(extent->second))
        if (!check.schedule.bound_of(name)) lacking.push_back(name + ": 1024");
      if (lacking.empty()) continue;
      check.errors.error(placement.find(DirectiveKind::compute_at)->where,
                         "compute_at of " + placement.name + ": at " + *at + " the tile holds all of " + nest->axis +
                             ", whose length " + to_string(extent->second) + " is known at run time only",
                         {"bound: {" + join(lacking) + "}"});
    }
  }
}

void check_bounds(LegalityCheck& check) {
  const Location where = check.place_of_key("bound");
  std::vector<std::string> extents;
  for (const Extent& extent : check.algorithm.extents) extents.push_back(extent.name);
  std::set<std::string> looped;  // extents of axes that loops run over: their value is known at run time
  for (const auto& [axis, extent] : check.cascade.axis_extents)
    for (const LoopNest& nest : check.nests)
      if (std::find(nest.axes.begin(), nest.axes.end(), axis) != nest.axes.end()) looped.merge(free_variables(extent));

  const auto exists = [&](const std::string& key, const std::string& extent) {
    if (contains(extents, extent)) return true;
    std::vector<std::string> notes = {"extents are " + join(extents)};
    suggest(notes, extent, extents);
    check.errors.error(check.place_of_key(key), key + ": there is no extent " + extent, notes);
    return false;
  };
  for (const std::string& extent : check.schedule.known) exists("known", extent);
  for (const auto& [extent, value] : check.schedule.bound) {
    if (!exists("bound", extent)) continue;
    if (contains(check.schedule.known, extent))
      check.errors.error(where, "bound: " + extent + " is compiled in by known, a bound would have no effect",
                         {"leave it out"});
    if (!check.nests.empty() && looped.count(extent) == 0)
      check.errors.error(where,
                         "bound: " + extent + " is fixed when the kernel is compiled, a bound would have no effect",
                         {"leave it out"});
  }
}

}  // namespace

void check_rewrite(LegalityCheck& check) {
  if (check.schedule.rewrite == RewriteMode::online) {
    check_online(check);
  } else {
    check_none(check);
  }
  check_rows_are_bounded(check);
  check_bounds(check);
  constexpr int kDependentLaunch = 90;  // the least compute capability
  if (check.schedule.dependent_launch && check.least.compute_capability < kDependentLaunch)
    check.errors.error(check.place_of_key("dependent_launch"),
                       "dependent_launch: " + check.least.name + " starts no kernel before the one in front has ended",
                       {"target: sm_90a, or another of compute capability 9.0 and later", "leave it out"});
}

}  // namespace astatide
