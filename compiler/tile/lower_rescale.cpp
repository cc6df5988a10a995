#include "compiler/tile/lower_rescale.h"

#include <algorithm>

#include "compiler/schedule/rescale.h"
#include "compiler/support/diagnostic.h"

namespace astatide::tile {
namespace {

/// Why a reference has to follow every tile at once; empty: it need not.
std::string why_not_lazy(const Slot& reference) {
  if (reference.op == Reduction::sum) return reference.name + " is a sum, which every tile changes";
  if (!reference.gauge)
    return reference.shown_by.empty() ? "terms read " + reference.name + ", and nothing moves with it"
                                      : "output " + reference.shown_by + " changes when " + reference.name + " moves";
  if (!reference.growth)
    return "no exponent tells how much terms grow while " + reference.name + " stays, so no number bounds them";
  return "";
}

}  // namespace

void check_rescale(const Schedule& schedule, const Recurrence& recurrence, const std::vector<const Slot*>& references) {
  if (schedule.rescale.mode == RescaleMode::plain) return;
  const std::string mode(name_of(schedule.rescale.mode));
  const Location where = place_of_rescale(schedule);
  const bool moves = std::any_of(recurrence.slots.begin(), recurrence.slots.end(),
                                 [](const Slot& slot) { return !(slot.move == variable(slot.name)); });
  if (references.empty() || !moves)
    throw UserError(where, "rescale: " + mode + " would have no effect: no sum moves with a reference",
                    {"rescale: plain"});
  for (const Slot* reference : references) {
    const std::string why = why_not_lazy(*reference);
    if (!why.empty()) throw UserError(where, "rescale: " + mode + " refused: " + why, {"rescale: plain"});
    if (schedule.rescale.mode == RescaleMode::optimistic && reference->witness.empty())
      throw UserError(
          where,
          "rescale: optimistic refused: no sum shows how large the terms get while " + reference->name + " stays",
          {"rescale: lazy"});
  }
}

bool is_witness(const Schedule& schedule, const std::vector<const Slot*>& references, const Slot& slot) {
  return schedule.rescale.mode == RescaleMode::optimistic &&
         std::any_of(references.begin(), references.end(),
                     [&](const Slot* reference) { return reference->witness == slot.name; });
}

ScalarType narrowest_weights(const Block& block, const Kernel& kernel) {
  ScalarType narrowest = ScalarType::f32;
  for (const Stmt& stmt : block) {
    const auto* mma = std::get_if<Mma>(&stmt.node);
    const auto* lhs = mma ? std::get_if<TileName>(&mma->lhs) : nullptr;
    if (!lhs) continue;
    const ScalarType type = kernel.find(*lhs)->type;
    if (type == ScalarType::f16 || narrowest == ScalarType::f32) narrowest = type;
  }
  return narrowest;
}

}  // namespace astatide::tile
