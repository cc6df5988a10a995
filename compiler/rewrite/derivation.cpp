#include "compiler/rewrite/derivation.h"

#include <algorithm>

#include "compiler/rewrite/presence.h"
#include "compiler/rewrite/rank_probe.h"

namespace astatide {

const Carried* Derivation::find_slot(const std::string& name) const {
  auto found = std::find_if(slots.begin(), slots.end(), [&](const Carried& slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

bool Derivation::is_slot(const std::string& name) const { return find_slot(name) != nullptr; }

bool Derivation::varies_along(const std::set<std::string>& names) const {
  return names.contains(cascade.axis) ||
         std::any_of(cascade.elements.begin(), cascade.elements.end(),
                     [&](const Element& element) { return names.contains(element.name); });
}

bool Derivation::varies_with_slots(const std::set<std::string>& names) const {
  return std::any_of(slots.begin(), slots.end(), [&](const Carried& slot) { return names.contains(slot.name); });
}

std::vector<std::string> Derivation::slots_in(const std::set<std::string>& names) const {
  std::vector<std::string> result;
  for (const Carried& slot : slots) {
    if (names.contains(slot.name)) result.push_back(slot.name);
  }
  return result;
}

Expr Derivation::over_slots(const Expr& e) const { return substitute(substitute(e, inlined_elements), stage_values); }

std::size_t Derivation::add_slot(Carried slot) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Carried& other = slots[i];
    const bool same_centre = slot.power == 0 || (other.centred && slot.centred && *other.centred == *slot.centred &&
                                                 same_factors(other.centre, slot.centre) &&
                                                 other.centre.coefficient == slot.centre.coefficient);
    const bool same_term = slot.op == Reduction::sum
                               ? same_factors(other.along, slot.along) && same_factors(other.held, slot.held) &&
                                     equal(other.exponent_along, slot.exponent_along) &&
                                     equal(other.exponent_row, slot.exponent_row)
                               : other.term == slot.term;
    const bool same_indicator = other.indicator == slot.indicator &&
                                other.indicated.has_value() == slot.indicated.has_value() &&
                                (!slot.indicated || *slot.indicated == *other.indicated);
    if (other.op == slot.op && other.power == slot.power && same_centre && same_term && same_indicator &&
        other.extra == slot.extra) {
      return i;
    }
  }
  slots.push_back(std::move(slot));
  return slots.size() - 1;
}

std::vector<Expr> Derivation::predicates_of(const std::set<std::string>& names) const {
  std::vector<Expr> predicates;
  for (const Element& element : cascade.elements) {
    if (!names.contains(element.name)) continue;
    for (const Expr& predicate : element.where_predicates) {
      if (std::find(predicates.begin(), predicates.end(), predicate) == predicates.end())
        predicates.push_back(predicate);
    }
  }
  return predicates;
}

std::optional<std::string> Derivation::presence(const Stage& stage, const std::set<std::string>& names, int value) {
  const std::vector<Expr> carried = predicates_of(names);
  std::vector<Expr> missing;
  for (const Expr& predicate : predicates_of(free_variables(stage.term))) {
    if (std::find(carried.begin(), carried.end(), predicate) == carried.end()) missing.push_back(predicate);
  }
  if (missing.empty()) return std::nullopt;
  return presence_element(cascade, fresh, missing, value, stage.name, stage.where);
}

namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += i + 1 == names.size() ? " and " : ", ";
    text += "'" + names[i] + "'";
  }
  return text;
}

/// The names of stages that a slot's value came from say more to a reader than the slot's.
std::vector<std::string> stages_behind(const Derivation& derivation, const std::vector<std::string>& slots) {
  std::vector<std::string> names;
  for (const std::string& slot : slots) {
    std::string name = slot;
    for (const auto& [stage, value] : derivation.stage_values) {
      if (value == variable(slot)) name = stage;
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::string names_along(const Derivation& derivation, const Expr& e) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  visit(e, [&](const Expr& node) {
    if (const auto* read = node.as<Read>(); read && derivation.varies_along(free_variables(node))) add(read->tensor);
    if (const auto* v = node.as<Variable>();
        v && v->name != derivation.cascade.axis && derivation.varies_along({v->name})) {
      add(v->name);
    }
  });
  if (names.empty()) add(derivation.cascade.axis);
  return quoted_list(names);
}

void refuse_mixed(const Derivation& derivation, const Stage& stage, const Expr& part, const Expr& whole) {
  const int rank = probe_rank(derivation, whole);
  const std::vector<std::string> slots = stages_behind(derivation, derivation.slots_in(free_variables(part)));
  throw UserError(stage.where,
                  "stage '" + stage.name + "': no streaming form: sub-expression " + to_string(part) +
                      " depends on the reduction axis through " + names_along(derivation, part) + " and on reduction " +
                      quoted_list(slots) + ", and does not split into a sum of products g(x)*h(r)" +
                      (rank > 1 ? " (separation rank on random probes: at least " + std::to_string(rank) + ")" : ""),
                  {"schedule it without the streaming form (rewrite: none), which makes a pass for each reduction"});
}

}  // namespace astatide
