#include "compiler/tile/lower_rescale.h"

#include <algorithm>
#include <set>

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

/// Whether an expression over elements and slots can be any number. Exponents are relative to a reference, where
/// nothing else bounds them; what an exponential scales is no larger than it is as written.
bool is_unbounded(const Expr& e, const std::set<std::string>& varying) {
  if (const auto* name = e.as<Variable>()) return varying.contains(name->name);
  const auto* call = e.as<Call>();
  if (call == nullptr) return false;
  const auto vanishes = [](const Expr& arg) {
    return arg.is_call(Op::exp) || arg.is_call(Op::exp2) || arg.is_call(Op::sigmoid);
  };
  if (vanishes(e) || e.is_call(Op::tanh)) return false;
  if (call->op == Op::mul && std::any_of(call->args.begin(), call->args.end(), vanishes)) return false;
  const auto first = call->args.begin() + (call->op == Op::select ? 1 : 0);
  return std::any_of(first, call->args.end(), [&](const Expr& arg) { return is_unbounded(arg, varying); });
}

/// The slots that outputs of `slot` are divided by.
std::set<std::string> divisors_of(const Recurrence& recurrence, const std::string& slot) {
  std::set<std::string> slots, out;
  for (const Slot& other : recurrence.slots) slots.insert(other.name);
  for (const RowValue& value : recurrence.values) {
    if (!free_variables(value.value).contains(slot)) continue;
    visit(value.value, [&](const Expr& e) {
      if (!e.is_call(Op::div)) return;
      for (const std::string& name : free_variables(e.as<Call>()->args[1]))
        if (slots.contains(name)) out.insert(name);
    });
  }
  return out;
}

}  // namespace

void check_weight_range(const Recurrence& recurrence, const Slot& slot, ScalarType weights) {
  if (weights != ScalarType::f16) return;
  const std::set<std::string> divisors = divisors_of(recurrence, slot.name);
  if (divisors.empty()) return;
  std::set<std::string> varying;
  for (const Element& element : recurrence.elements) varying.insert(element.name);
  for (const Slot& other : recurrence.slots) varying.insert(other.name);
  Expr term = slot.term;
  for (auto weight = recurrence.weights.rbegin(); weight != recurrence.weights.rend(); ++weight)
    term = substitute(term, {{weight->name, weight->value}});
  if (is_unbounded(term, varying))
    throw UserError(slot.where,
                    "products round " + to_string(term) +
                        " to f16, which ends at 65504, and nothing bounds it before " + *divisors.begin() +
                        " divides the sums",
                    {"inputs of bf16, which has the range of f32", "mma: fma", "rewrite: none divides first"});
}

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
