#include "compiler/rewrite/write_weights.h"

#include <algorithm>

#include "compiler/rewrite/write_move.h"

namespace astatide {

namespace {

bool is_one(const Monomial& m) { return m.powers.empty() && m.exponent.empty() && m.coefficient == 1; }

}  // namespace

WeightWriter::WeightWriter(Derivation& derivation) : derivation_(derivation) { find_definitions(); }

void WeightWriter::find_definitions() {
  const auto add_definition = [&](const std::string& name, const Expr& value, const Location& where) {
    Stage stage;
    stage.name = name;
    stage.where = where;
    try {
      const Expr whole = derivation_.over_slots(value);
      const Polynomial form = normal_form(whole, derivation_.signs);
      if (form.size() == 1) definitions_.push_back({name, split_term(derivation_, stage, form[0], whole), where});
    } catch (const UserError&) {
      // It has no streaming form of its own and so stands in no slot's term; its name stays unused.
    } catch (const ExpansionTooLarge&) {
    }
  };
  for (const Element& element : derivation_.cascade.elements) {
    if (derivation_.inlined_elements.contains(element.name)) {
      add_definition(element.name, variable(element.name), element.where);
    }
  }
  for (const RowValue& value : derivation_.cascade.values) {
    if (derivation_.varies_along(free_variables(value.value))) add_definition(value.name, value.value, value.where);
  }
}

std::string WeightWriter::name_for(const Monomial& along, const Carried& slot,
                                   std::vector<std::string>& replaced) const {
  std::string name;
  for (const bool exact : {true, false}) {
    for (const Definition& definition : definitions_) {
      const SplitTerm& split = definition.split;
      if (!same_factors(split.along, along) || !equal(split.exponent_along, slot.exponent_along)) continue;
      if (split.indicator != slot.indicator) continue;
      const bool is_exact = is_one(split.row) && equal(split.exponent_row, slot.exponent_row);
      if (is_exact != exact) continue;
      replaced.push_back(definition.name);
      if (name.empty() && !taken_.contains(definition.name)) name = definition.name;
    }
  }
  return name;
}

std::string WeightWriter::add(const Expr& value, const Monomial& along, const Carried& slot,
                              const std::string& fallback) {
  for (const Weight& weight : weights_) {
    if (weight.value == value) return weight.name;
  }
  Weight weight;
  std::string name = name_for(along, slot, weight.replaces);
  weight.name = name.empty() ? derivation_.fresh.fresh(fallback) : name;
  taken_.insert(weight.name);
  weight.value = value;
  weight.where = slot.where;
  for (const Definition& definition : definitions_) {
    if (definition.name == weight.name) weight.where = definition.where;
  }
  weights_.push_back(weight);
  return weight.name;
}

std::string WeightWriter::exponential_weight(const Carried& slot) {
  const Polynomial exponent = astatide::add(slot.exponent_along, with_safe_references(derivation_, slot.exponent_row));
  return add(exponential(exponent), constant(1), slot, "weight");
}

WrittenTerm WeightWriter::term_of(const Carried& slot) {
  // What a zero weight must absorb: what can be infinite where an element is absent or a row is empty.
  Expr finite(1), infinite(1);
  std::optional<Expr> factor;
  Monomial left = slot.along;
  const auto has_extra = [&](const Expr& e) {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(slot.extra.begin(), slot.extra.end(),
                       [&](const std::string& axis) { return names.contains(axis); });
  };
  bool factors = true;
  for (const Power& power : slot.along.powers) {
    if (has_extra(power.base)) {
      if (!factor && power.exponent == 1 && power.base.as<Read>()) {
        factor = power.base;
        left = multiply(left, power_of(power.base, -1));
        continue;
      }
      factors = false;
    }
    const Expr written = to_expr(power_of(power.base, power.exponent));
    const std::set<std::string> names = free_variables(power.base);
    const bool is_name = power.base.as<Variable>() != nullptr;
    const bool same_as_exponent =
        std::any_of(slot.exponent_along.begin(), slot.exponent_along.end(), [&](const Monomial& m) {
          return std::any_of(m.powers.begin(), m.powers.end(), [&](const Power& p) { return p.base == power.base; });
        });
    if ((is_name && names != std::set<std::string>{derivation_.cascade.axis}) || same_as_exponent) {
      infinite = infinite * written;
    } else {
      finite = finite * written;
    }
  }
  if (slot.power > 0) {
    if (has_extra(*slot.centred) || has_extra(to_expr(slot.centre))) factors = false;
    infinite = infinite * integer_power(*slot.centred - centre_of(derivation_, slot.centre), slot.power);
  }
  if (!factors && factor) {
    finite = finite * *factor;
    factor.reset();
  }
  if (!slot.extra.empty() && !factor) {
    derivation_.notes.push_back("slot " + slot.name + ": contribution does not factor into a (row," +
                                derivation_.cascade.axis + ") and a (" + derivation_.cascade.axis + "," +
                                slot.extra[0] + ") tile; it cannot use a product of tiles");
  }

  Expr term(1);
  if (!slot.exponent_along.empty()) {
    term = variable(exponential_weight(slot));
    if (!infinite.is_constant(1)) term = absorb(term, infinite);
    term = term * finite;
  } else {
    term = infinite * finite;
  }
  if (!slot.held.powers.empty()) term = absorb(term, to_expr(slot.held));
  if (slot.indicated) term = select(*slot.indicated, term, Expr(0));
  if (factor && !term.as<Variable>()) {
    term = variable(left_factor(slot, term, left));
  }
  return {term, factor};
}

std::string WeightWriter::left_factor(const Carried& slot, const Expr& term, const Monomial& along) {
  return add(term, along, slot, slot.name + "_weight");
}

}  // namespace astatide
