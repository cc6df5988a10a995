#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Where tiles are computed and copied: the loops of compute_at and stage_at.

namespace astatide {
namespace {

std::vector<std::string> roots_of(const std::vector<const LoopNest*>& nests) {
  std::vector<std::string> roots;
  for (const LoopNest* nest : nests) roots.push_back(nest->root);
  return roots;
}

std::vector<LoopName> loops_of(const std::vector<const LoopNest*>& nests) {
  std::vector<LoopName> loops;
  for (const LoopNest* nest : nests)
    for (const LoopName& loop : nest->order)
      if (!contains(loops, loop)) loops.push_back(loop);
  return loops;
}

/// "legal for S are i.o, j.o of O, or compute_root: true".
std::vector<std::string> legal_note(const LegalityCheck& check, const std::string& name, NameRole role) {
  const std::vector<LoopName> legal = check.legal_places(name);
  std::string note = "legal for " + name + (legal.size() == 1 ? " is " : " are ") + join(legal) + " of " +
                     join(roots_of(check.nests_of(name)), " and ");
  if (legal.empty()) note = "no loop of " + join(roots_of(check.nests_of(name)), " and ") + " is legal for " + name;
  if (role != NameRole::input && check.schedule.rewrite == RewriteMode::none) note += ", or compute_root: true";
  return {note};
}

/// A loop of the kernels that `name` is in, but not a legal one: why.
std::string reason_against(const LegalityCheck& check, const std::string& name, const LoopName& loop, NameRole role) {
  const bool staged = role == NameRole::input;
  const std::string at = name + (staged ? " is staged at " : " is computed at ") + loop;
  for (const LoopNest* nest : check.nests_of(name)) {
    const std::size_t position = nest->position(loop);
    if (position == nest->order.size()) return at + ", and the kernel of " + nest->root + " has no such loop";
    if (position + 1 < nest->block_loops)
      return at + ", an outer loop over blocks: what lies between the loops over blocks runs nowhere";
    if (staged) {
      std::vector<LoopName> inside;
      for (const std::string& axis : check.axes_of(name))
        for (const LoopName& chooser : {axis, axis + ".o"})
          if (const std::size_t p = nest->position(chooser); p < nest->order.size() && p > position)
            inside.push_back(chooser);
      if (!inside.empty()) return at + ", outside " + join(inside, " and ") + ", which chooses its tile";
    } else if (loop == nest->axis_loop() && check.needs_whole_row(name)) {
      return "per-tile reduction without the rewrite: " + name + " is computed at " + loop + ", a tile of " +
             nest->axis + " at a time, and " + nest->root + " needs reductions over all of " + nest->axis +
             " before it reads them";
    } else {
      return at + (check.schedule.rewrite == RewriteMode::online
                       ? ", and rewrite: online computes it in the innermost loop"
                       : ", and rewrite: none computes it in " + nest->axis_loop() + " or in the loop around it");
    }
  }
  return at + ", which is not legal";
}

void check_place(LegalityCheck& check, const Placement& placement, const LoopName& loop, const Location& where) {
  const std::string& name = placement.name;
  const NameRole role = check.role_of(name);
  const std::vector<const LoopNest*> nests = check.nests_of(name);
  // Without a consistent kernel around it there are no places; that is reported where the kernel is.
  if (nests.empty() || std::any_of(nests.begin(), nests.end(), [](const LoopNest* n) { return !n->consistent; }))
    return;
  if (contains(check.legal_places(name), loop)) return;

  const std::string word = role == NameRole::input ? "stage_at" : "compute_at";
  const std::string of = word + " of " + name + ": ";
  std::vector<std::string> notes = legal_note(check, name, role);
  const auto error = [&](const std::string& message) { check.errors.error(where, of + message, notes); };

  if (contains(loops_of(nests), loop)) {
    if (check.needs_whole_row(name) && loop == nests[0]->axis_loop())
      notes.push_back("rewrite: online carries the reductions over the tiles of " + check.cascade.axis);
    return error(reason_against(check, name, loop, role));
  }
  const std::string axis = axis_of_loop(loop);
  if (loop.ends_with(".i") && contains(loops_of(nests), axis + ".o"))
    return error(loop + " is a loop over the threads and vectors inside a tile");
  for (const LoopNest& other : check.nests)
    if (contains(other.order, loop))
      return error(loop + " is a loop of " + other.root + ", and " + name + " belongs to the kernel of " +
                   join(roots_of(nests), " and "));
  if (contains(loops_of(nests), axis + ".o")) return error(axis + " is tiled, its loop is " + axis + ".o");
  if (contains(loops_of(nests), axis)) return error(axis + " is not tiled, its loop is " + axis);
  suggest(notes, loop, check.legal_places(name));
  error("there is no loop " + loop);
}

void check_is_placed(LegalityCheck& check, const std::string& name, const std::string& why) {
  if (check.schedule.find(name) != nullptr || check.nests_of(name).empty()) return;
  const bool input = check.role_of(name) == NameRole::input;
  const std::vector<LoopName> legal = check.legal_places(name);
  if (legal.empty()) return;
  check.errors.error(check.schedule.where, name + " has no place: " + why,
                     {name + ": {" + (input ? "stage_at: " : "compute_at: ") + legal.back() + ", store_in: shared}"});
}

/// What has no place of its own and no default.
void check_unplaced(LegalityCheck& check) {
  if (check.least.is_cuda()) {
    std::set<std::string> seen;
    for (const Operand& operand : check.operands)
      if (seen.insert(operand.name).second)
        check_is_placed(check, operand.name,
                        "a product reads it, and multiply-adds read their operands from shared memory");
  }
  for (const Element& element : check.cascade.elements)
    if (element.product && check.needs_whole_row(element.name))
      check_is_placed(check, element.name, "rewrite: none reads its whole row once for each reduction");
}

}  // namespace

void check_places(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) {
    const NameRole role = check.role_of(placement.name);
    if (const auto loop = placement.compute_at();
        loop && !placement.compute_root() && (role == NameRole::element || role == NameRole::weight))
      check_place(check, placement, *loop, placement.find(DirectiveKind::compute_at)->where);
    if (const auto loop = placement.stage_at(); loop && role == NameRole::input)
      check_place(check, placement, *loop, placement.find(DirectiveKind::stage_at)->where);
  }
  check_unplaced(check);
}

}  // namespace astatide
