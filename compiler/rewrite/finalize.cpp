#include "compiler/rewrite/finalize.h"

#include <cmath>

#include "compiler/rewrite/guard.h"
#include "compiler/rewrite/value_of.h"

namespace astatide {

namespace {

bool same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= 1e-12 * (1 + std::abs(a) + std::abs(b)));
}

GuardFacts slot_facts(const Derivation& derivation) {
  GuardFacts facts;
  for (const Carried& slot : derivation.slots) {
    (slot.op == Reduction::sum ? facts.totals : facts.extrema).insert(slot.name);
  }
  return facts;
}

class Finalizer {
 public:
  explicit Finalizer(Derivation& derivation) : derivation_(derivation), facts_(slot_facts(derivation)) {}

  RowValue operator()(const RowValue& of_stages) {
    RowValue result = of_stages;
    for (Expr& predicate : result.where_predicates) predicate = guarded(derivation_.over_slots(predicate), facts_);
    const Expr plain = guarded(derivation_.over_slots(of_stages.value), facts_);
    const Expr simplified = simplify(plain);
    const double wanted = empty_row_of_stages(of_stages.value);
    // log l - t/l is simpler than l*(log l)/l - t/l, but -inf and not 0 where the row is empty.
    if (same_value(empty_row_of_slots(simplified), wanted) || std::isnan(wanted)) {
      result.value = simplified;
    } else if (same_value(empty_row_of_slots(plain), wanted)) {
      result.value = plain;
    } else {
      result.value = simplified;
      derivation_.notes.push_back("output '" + of_stages.name + "' of a row without elements is " +
                                  to_string(Expr(empty_row_of_slots(simplified))));
    }
    return result;
  }

 private:
  Expr simplify(const Expr& value) const {
    try {
      return guarded(to_expr(normal_form(value, derivation_.signs)), facts_);
    } catch (const ExpansionTooLarge&) {
      return value;
    }
  }

  double empty_row_of_stages(const Expr& value) const {
    RandomBindings bindings(11, 0.3, 1.7);
    for (const Stage& stage : derivation_.cascade.stages) bindings.set(stage.name, unit_of(stage.op));
    return bindings(value);
  }

  double empty_row_of_slots(const Expr& value) const {
    RandomBindings bindings(11, 0.3, 1.7);
    for (const Carried& slot : derivation_.slots) bindings.set(slot.name, unit_of(slot.op));
    return bindings(value);
  }

  Derivation& derivation_;
  GuardFacts facts_;
};

}  // namespace

std::vector<RowValue> finalize_values(Derivation& derivation) {
  Finalizer finalizer(derivation);
  std::vector<RowValue> values;
  for (const RowValue& value : derivation.cascade.values) {
    if (value.output) values.push_back(finalizer(value));
  }
  return values;
}

}  // namespace astatide
