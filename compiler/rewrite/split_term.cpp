#include <algorithm>

#include "compiler/rewrite/derivation.h"

namespace astatide {

namespace {

/// m, or max(m, sink): a maximum or minimum over the axis, possibly widened by row constants.
bool is_extremum_reference(const Derivation& derivation, const Expr& e) {
  if (const auto* v = e.as<Variable>()) {
    const Carried* slot = derivation.find_slot(v->name);
    return slot && slot->op != Reduction::sum;
  }
  if (!e.is_call(Op::max) && !e.is_call(Op::min)) return false;
  const auto& args = e.as<Call>()->args;
  return is_extremum_reference(derivation, args[0]) || is_extremum_reference(derivation, args[1]);
}

Polynomial form(const Derivation& derivation, const Expr& e) { return normal_form(e, derivation.signs); }

/// select(a == r, 1, 0) with r the max or min over the axis of the same a.
bool takes_indicator(const Derivation& derivation, const Expr& base, SplitTerm& split) {
  const auto& condition = base.as<Call>()->args[0];
  if (!condition.is_call(Op::eq)) return false;
  for (const int side : {0, 1}) {
    const Expr& along = condition.as<Call>()->args[static_cast<std::size_t>(side)];
    const auto* reference = condition.as<Call>()->args[static_cast<std::size_t>(1 - side)].as<Variable>();
    const Carried* slot = reference ? derivation.find_slot(reference->name) : nullptr;
    if (!slot || slot->op == Reduction::sum || slot->indicated) continue;
    if (!equal(form(derivation, slot->term), form(derivation, along))) continue;
    if (!split.indicator.empty() && split.indicator != slot->name) return false;
    split.indicator = slot->name;
    split.indicated = condition;
    return true;
  }
  return false;
}

bool bounds(const Derivation& derivation, const Expr& reference, const Polynomial& exponent, const Monomial& factor) {
  if (const auto* v = reference.as<Variable>()) {
    const Carried* slot = derivation.find_slot(v->name);
    if (!slot || slot->op != Reduction::max || slot->indicated) return false;
    return equal(multiply(form(derivation, slot->term), Polynomial{factor}), exponent);
  }
  if (!reference.is_call(Op::max)) return false;
  const auto& args = reference.as<Call>()->args;
  return bounds(derivation, args[0], exponent, factor) || bounds(derivation, args[1], exponent, factor);
}

/// The exponent is c * (a - r), c >= 0, r an upper bound of a.
bool is_bounded(const Derivation& derivation, const SplitTerm& term) {
  if (term.exponent_row.size() != 1) return false;
  const Monomial& row = term.exponent_row[0];
  if (row.coefficient >= 0 || !row.exponent.empty()) return false;
  for (const Power& power : row.powers) {
    if (power.exponent != 1 || !is_extremum_reference(derivation, power.base)) continue;
    Monomial factor = multiply(row, power_of(power.base, -1));
    factor.coefficient = -factor.coefficient;
    if (derivation.varies_with_slots(names_in(factor)) || !is_nonnegative(factor, derivation.signs)) continue;
    if (bounds(derivation, power.base, term.exponent_along, factor)) return true;
  }
  return false;
}

/// What every term has in common of log(2), so that the maximum is taken of the exponent as it was written.
Monomial common_base(const Polynomial& exponent) {
  const Expr log2 = call(Op::log, {Expr(2)});
  const bool all = std::all_of(exponent.begin(), exponent.end(), [&](const Monomial& m) {
    return std::any_of(m.powers.begin(), m.powers.end(),
                       [&](const Power& power) { return power.base == log2 && power.exponent == 1; });
  });
  return all ? power_of(log2) : constant(1);
}

}  // namespace

std::optional<Monomial> positive_ratio(const Derivation& derivation, const Polynomial& exponent,
                                       const Polynomial& bound) {
  if (exponent.empty() || exponent.size() != bound.size()) return std::nullopt;
  for (const Monomial& m : bound) {
    const Monomial ratio = multiply(exponent[0], reciprocal(m));
    const std::set<std::string> names = names_in(ratio);
    if (derivation.varies_along(names) || derivation.varies_with_slots(names)) continue;
    if (!ratio.exponent.empty() || !is_nonnegative(ratio, derivation.signs)) continue;
    if (equal(multiply(bound, Polynomial{ratio}), exponent)) return ratio;
  }
  return std::nullopt;
}

SplitTerm split_term(const Derivation& derivation, const Stage& stage, const Monomial& term, const Expr& whole) {
  SplitTerm split;
  split.row.coefficient = term.coefficient;
  for (const Power& power : term.powers) {
    const std::set<std::string> names = free_variables(power.base);
    const bool along = derivation.varies_along(names);
    const bool row = derivation.varies_with_slots(names);
    const Monomial factor = power_of(power.base, power.exponent);
    if (along && row) {
      if (!power.base.is_call(Op::select)) refuse_mixed(derivation, stage, power.base, whole);
      if (!takes_indicator(derivation, power.base, split)) {
        throw UserError(stage.where, "stage '" + stage.name + "': indicator " + to_string(power.base) +
                                         " is only supported against a max or min reduction of the same expression");
      }
    } else if (along) {
      split.along = multiply(split.along, factor);
    } else if (row && power.exponent < 0 && is_extremum_reference(derivation, power.base) &&
               is_nonnegative(power_of(power.base), derivation.signs)) {
      // s/a with a = max |s| stays in range; a maximum that can pass through 0 must not divide before it is final.
      split.held = multiply(split.held, factor);
    } else {
      split.row = multiply(split.row, factor);
    }
  }
  for (const Monomial& m : term.exponent) {
    const std::set<std::string> names = names_in(m);
    const bool along = derivation.varies_along(names);
    const bool row = derivation.varies_with_slots(names);
    if (along && row) refuse_mixed(derivation, stage, exponential({m}), whole);
    (row ? split.exponent_row : split.exponent_along).push_back(m);
  }
  if (!derivation.varies_along(names_in(split.exponent_along))) {
    Monomial deferred = constant(1);
    deferred.exponent = add(split.exponent_along, split.exponent_row);
    split.row = multiply(split.row, deferred);
    split.exponent_along.clear();
    split.exponent_row.clear();
  }
  return split;
}

void bound_exponent(Derivation& derivation, const Stage& stage, SplitTerm& term) {
  if (term.exponent_along.empty() || is_bounded(derivation, term)) return;
  if (!derivation.options.stabilise) {
    derivation.notes.push_back("stage '" + stage.name + "': exponent " +
                               to_string(to_expr(add(term.exponent_along, term.exponent_row))) +
                               " is not bounded above by any reduction; it may overflow (enable stabilise)");
    return;
  }
  std::optional<Monomial> factor;
  std::string reference;
  for (const Carried& slot : derivation.slots) {
    if (slot.op != Reduction::max || slot.indicated || factor) continue;
    factor = positive_ratio(derivation, term.exponent_along, form(derivation, slot.term));
    if (factor) reference = slot.name;
  }
  if (!factor) {
    factor = common_base(term.exponent_along);
    Carried inserted;
    inserted.name = derivation.fresh.fresh("m");
    inserted.op = Reduction::max;
    inserted.term = to_expr(multiply(term.exponent_along, Polynomial{reciprocal(*factor)}));
    inserted.where = stage.where;
    reference = inserted.name;
    derivation.notes.push_back("inserted reference " + reference + " = max over " + derivation.cascade.axis + " of " +
                               to_string(inserted.term) + " under the exponential of stage '" + stage.name + "'");
    derivation.add_slot(std::move(inserted));
  }
  // exp(a + b) = exp(a - c*m) * exp(c*m + b); the second factor is deferred.
  const Polynomial shift = multiply(Polynomial{*factor}, Polynomial{power_of(variable(reference))});
  Monomial deferred = constant(1);
  deferred.exponent = add(shift, term.exponent_row);
  term.row = multiply(term.row, deferred);
  term.exponent_row = scale(shift, -1);
}

}  // namespace astatide
