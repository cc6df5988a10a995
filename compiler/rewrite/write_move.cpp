#include "compiler/rewrite/write_move.h"

#include <algorithm>
#include <cmath>

#include "compiler/rewrite/guard.h"

namespace astatide {

namespace {

GuardFacts facts_of(const Derivation& derivation) {
  GuardFacts facts;
  for (const Carried& slot : derivation.slots) {
    (slot.op == Reduction::sum ? facts.totals : facts.extrema).insert(slot.name);
  }
  return facts;
}

Expr unit(Reduction op) { return op == Reduction::sum ? Expr(0) : Expr(unit_of(op)); }

Expr with_new_values(const Derivation& derivation, const Expr& e) {
  std::map<std::string, Expr> values;
  for (const Carried& slot : derivation.slots) values.insert_or_assign(slot.name, variable(new_value_name(slot.name)));
  return substitute(e, values);
}

Polynomial with_new_values(const Derivation& derivation, const Polynomial& p) {
  return map_atoms(p, [&](const Expr& atom) { return with_new_values(derivation, atom); });
}

/// exp(row(new) - row(old)). The old reference is not guarded: at minus infinity the factor is 0.
Polynomial exponent_of_ratio(const Derivation& derivation, const Polynomial& exponent_row) {
  return add(scale(exponent_row, -1), with_new_values(derivation, with_safe_references(derivation, exponent_row)));
}

}  // namespace

Polynomial with_safe_references(const Derivation& derivation, const Polynomial& p) {
  return map_atoms(p, [&](const Expr& atom) {
    const std::set<std::string> names = free_variables(atom);
    const bool extremum = std::any_of(derivation.slots.begin(), derivation.slots.end(), [&](const Carried& slot) {
      return slot.op != Reduction::sum && names.contains(slot.name);
    });
    return extremum ? safe(atom) : atom;
  });
}

Expr centre_of(const Derivation& derivation, const Monomial& centre) {
  return guarded(to_expr(with_safe_references(derivation, {centre})), facts_of(derivation));
}

Expr write_move(const Derivation& derivation, const Carried& slot) {
  const Expr own = variable(slot.name);
  Expr moved = own;
  if (slot.op == Reduction::sum) {
    Expr shifted = own;
    bool has_shift = false;
    if (slot.power > 0) {
      const Expr old_centre = guarded(to_expr(Polynomial{slot.centre}), facts_of(derivation));
      const Expr delta = old_centre - with_new_values(derivation, centre_of(derivation, slot.centre));
      double binomial = 1;
      for (int i = 1; i <= slot.power; ++i) {
        binomial = binomial * (slot.power - i + 1) / i;
        const auto& lower = slot.lower[static_cast<std::size_t>(i - 1)];
        if (!lower) continue;
        const Expr shift = integer_power(delta, i);
        const Expr weighted = binomial == 1 ? shift : Expr(static_cast<std::int64_t>(binomial)) * shift;
        shifted = shifted + absorb(variable(derivation.slots[*lower].name), weighted);
        has_shift = true;
      }
    }
    moved = shifted;
    if (!slot.exponent_row.empty()) {
      const Expr ratio = exponential(exponent_of_ratio(derivation, slot.exponent_row));
      // From minus infinity the ratio is 0 and the shift infinite.
      moved = has_shift ? absorb(ratio, shifted) : shifted * ratio;
    }
    if (!slot.held.powers.empty()) {
      moved = absorb(moved, to_expr(multiply(Polynomial{reciprocal(slot.held)},
                                             with_new_values(derivation, Polynomial{slot.held}))));
    }
  }
  if (slot.indicator.empty()) return moved;
  const Expr reference = variable(slot.indicator);
  return select(equal(reference, variable(new_value_name(slot.indicator))), moved, unit(slot.op));
}

std::vector<std::string> references_of(const Derivation& derivation, const Carried& slot) {
  std::set<std::string> names = names_in(slot.exponent_row);
  names.merge(names_in(slot.held));
  if (slot.power > 0) names.merge(names_in(slot.centre));
  if (!slot.indicator.empty()) names.insert(slot.indicator);
  return derivation.slots_in(names);
}

std::optional<Expr> growth_of(const Derivation& derivation, const Carried& reference) {
  if (reference.op == Reduction::sum) return std::nullopt;
  const Expr log2 = call(Op::log, {Expr(2)});
  std::vector<Expr> found;
  for (const Carried& slot : derivation.slots) {
    if (names_in(slot.held).contains(reference.name)) return std::nullopt;
    if (slot.op != Reduction::sum || !names_in(slot.exponent_row).contains(reference.name)) continue;
    const Polynomial shrink = scale(exponent_of_ratio(derivation, slot.exponent_row), -1);
    const bool base_two = std::all_of(shrink.begin(), shrink.end(), [&](const Monomial& m) {
      return std::any_of(m.powers.begin(), m.powers.end(),
                         [&](const Power& p) { return p.base == log2 && p.exponent == 1; });
    });
    const Expr growth = base_two ? to_expr(multiply(shrink, Polynomial{power_of(log2, -1)}))
                                 : to_expr(shrink) * Expr(1 / std::log(2.0));
    if (std::find(found.begin(), found.end(), growth) == found.end()) found.push_back(growth);
  }
  if (found.empty()) return std::nullopt;
  Expr growth = found[0];
  for (std::size_t i = 1; i < found.size(); ++i) growth = max(growth, found[i]);
  return growth;
}

}  // namespace astatide
