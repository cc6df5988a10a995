#include <algorithm>

#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"

// What a schedule names, and which directives may stand under it.

namespace astatide {
namespace {

std::vector<std::string> known_names(const LegalityCheck& check) {
  std::vector<std::string> names;
  for (const Func& func : check.algorithm.define) names.push_back(func.name);
  for (const Input& input : check.algorithm.inputs) names.push_back(input.name);
  return names;
}

void check_known(LegalityCheck& check, const Placement& placement) {
  std::vector<std::string> notes = {"definitions and inputs of " + quoted(check.algorithm.name) + " are " +
                                    join(known_names(check))};
  suggest(notes, placement.name, known_names(check));
  check.errors.error(placement.where,
                     "'" + quoted(placement.name) + "' is neither a definition nor an input of the algorithm", notes);
}

/// The part that a name plays, in words, and the site that it makes of its directives.
struct Part {
  unsigned site = 0;
  std::string words;
};

Part part_of(const LegalityCheck& check, const Placement& placement, NameRole role) {
  if (role == NameRole::input) return {kStagedInput, "an input"};
  if (check.is_root(placement.name)) return {kRootDefinition, "a root definition"};
  return {kInnerDefinition, "a definition inside the loops of another"};
}

/// Directives of a machine other than the schedule's.
void check_machine(LegalityCheck& check, const Placement& placement, const Directive& directive, const Part& part) {
  const std::string key(directive_info(directive.kind).key);
  const std::string of = key + " of " + placement.name;
  if (check.least.is_cuda()) {
    if (directive.kind == DirectiveKind::parallel)
      check.errors.error(directive.where, of + ": parallel is for the CPU, the target is " + check.least.name,
                         {"gpu_blocks spreads loops over the blocks of a GPU's grid"});
    if (directive.kind == DirectiveKind::vectorize && part.site == kRootDefinition)
      check.errors.error(directive.where, of + ": lanes of a root definition have no effect on " + check.least.name,
                         {"vectorize of a staged input sets the width of its loads"});
    return;
  }
  if (directive.kind == DirectiveKind::gpu_blocks)
    check.errors.error(directive.where, of + ": gpu_blocks is for GPUs, the target is cpu",
                       {"parallel spreads loops over the cores"});
  const bool rings = directive.kind == DirectiveKind::ring_buffer && placement.ring_buffer() > 1;
  const bool width = directive.kind == DirectiveKind::vectorize && part.site == kStagedInput;
  if (directive.kind == DirectiveKind::threads || directive.kind == DirectiveKind::exp2 || rings || width)
    check.errors.error(directive.where, of + " would have no effect on cpu", {"leave it out"});
}

void check_sites(LegalityCheck& check, const Placement& placement, const Part& part) {
  for (const Directive& directive : placement.directives) {
    const DirectiveInfo& info = directive_info(directive.kind);
    // compute_root beside compute_at is reported as the contradiction that it is.
    const bool contradiction = placement.compute_root() && directive.kind == DirectiveKind::compute_at;
    if ((info.sites & part.site) == 0 && !contradiction) {
      check.errors.error(directive.where, std::string(info.key) + " belongs to " + describe_sites(info.sites) +
                                              ", and " + placement.name + " is " + part.words);
    } else {
      check_machine(check, placement, directive, part);
    }
  }
}

void check_complete(LegalityCheck& check, const Placement& placement, const Part& part) {
  if (part.site == kStagedInput && !placement.stage_at()) {
    check.errors.error(placement.where, placement.name + " has no stage_at: its other directives would have no effect",
                       {"legal are " + join(check.legal_places(placement.name))});
  }
  if (part.site == kInnerDefinition && !placement.compute_at()) {
    check.errors.error(placement.where, placement.name + " has neither compute_at nor compute_root",
                       {"compute_at: " + join(check.legal_places(placement.name), " or ")});
  }
}

void check_placement(LegalityCheck& check, const Placement& placement) {
  const NameRole role = check.role_of(placement.name);
  const std::string& name = placement.name;
  switch (role) {
    case NameRole::unknown:
      return check_known(check, placement);
    case NameRole::plain_input:
      check.errors.error(placement.where,
                         name +
                             " is read element by element, by no product of tiles: directives would "
                             "have no effect",
                         {"leave it out"});
      return;
    case NameRole::row_value:
      check.errors.error(placement.where,
                         name + " is a value of each row, carried by the loops of " +
                             (check.main_nest() != nullptr ? check.main_nest()->root : "the output") +
                             ": directives would have no effect",
                         {"leave it out"});
      return;
    case NameRole::inlined:
      check.errors.error(placement.where,
                         name +
                             " holds no product and is a factor of none, so it is computed where it is "
                             "read: directives would have no effect",
                         {"leave it out"});
      return;
    case NameRole::row_output:
      if (!check.is_root(name)) {
        const LoopNest* main = check.main_nest();
        check.errors.error(placement.where,
                           name + (main == nullptr ? " is an output of whole rows: it is computed at root"
                                                   : " is computed in the kernel of " + main->root +
                                                         ", with its rows: directives would have no effect"),
                           {"leave it out"});
        return;
      }
      break;
    case NameRole::input:
    case NameRole::element:
    case NameRole::weight:
      break;
  }
  if (placement.compute_root() && placement.compute_at()) {
    check.errors.error(placement.find(DirectiveKind::compute_at)->where,
                       name + " has compute_at and compute_root, one of them is wanted");
  }
  const Part part = part_of(check, placement, role);
  check_sites(check, placement, part);
  check_complete(check, placement, part);
}

}  // namespace

void check_names_and_sites(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) check_placement(check, placement);
}

}  // namespace astatide
