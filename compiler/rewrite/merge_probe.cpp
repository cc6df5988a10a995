#include "compiler/rewrite/merge_probe.h"

#include <cmath>

#include "compiler/rewrite/row_scope.h"

namespace astatide {
namespace {

constexpr unsigned kMergeTrials = 12;
/// exp of it is no double: states that are not made for such references show.
constexpr double kFar = 800;

using Values = std::map<std::string, double>;

class MergeProbe {
 public:
  MergeProbe(const Recurrence& recurrence, const PartStates& states, unsigned seed)
      : recurrence_(recurrence), states_(states), rows_(seed, 0.3, 1.7) {}

  Values unit() const {
    Values out;
    for (const Slot& slot : recurrence_.slots) out[slot.name] = unit_of(slot.op);
    return out;
  }

  /// Gauges are moved by `shift`.
  Values draw(unsigned seed, double shift) const {
    const RandomBindings random(seed, 0.3, 1.7);
    Values out;
    for (const Slot& slot : recurrence_.slots) out[slot.name] = random(variable(slot.name)) + (slot.gauge ? shift : 0);
    return out;
  }

  Values outputs_of(const Values& state) const {
    const RandomBindings bindings = with(state);
    Values out;
    for (const RowValue& value : recurrence_.values) out[value.name] = bindings(value.value);
    return out;
  }

  Values from_outputs(const Values& outputs) const {
    const RandomBindings bindings = with(outputs);
    Values out;
    for (const auto& [slot, value] : states_.of_slot) out[slot] = bindings(value);
    return out;
  }

  Values combine(const Values& a, const Values& b) const {
    RandomBindings of_a = with(a), of_b = with(b);
    Values out;
    for (const Slot& slot : recurrence_.slots) {
      const double whole = reduced(slot.op, of_a(slot.move), of_b(slot.move));
      out[slot.name] = whole;
      of_a.set(new_value_name(slot.name), whole);
      of_b.set(new_value_name(slot.name), whole);
    }
    return out;
  }

  bool alike(const Values& a, const Values& b) const {
    const Values expected = outputs_of(combine(combine(unit(), a), b));
    const Values found = outputs_of(combine(combine(unit(), from_outputs(outputs_of(a))), from_outputs(outputs_of(b))));
    for (const auto& [name, x] : expected) {
      const double y = found.at(name);
      if (std::isnan(x) || x == y) continue;
      if (!(std::abs(x - y) <= 1e-9 * (1 + std::abs(x)))) return false;
    }
    return true;
  }

 private:
  RandomBindings with(const Values& values) const {
    RandomBindings out = rows_;
    for (const auto& [name, value] : values) out.set(name, value);
    return out;
  }

  const Recurrence& recurrence_;
  const PartStates& states_;
  const RandomBindings rows_;
};

}  // namespace

bool merges_alike(const Recurrence& recurrence, const PartStates& states) {
  for (unsigned trial = 0; trial < kMergeTrials; ++trial) {
    const MergeProbe probe(recurrence, states, 3 * trial + 1);
    for (const double shift : {0.0, kFar, -kFar}) {
      const Values a = probe.draw(3 * trial + 2, shift), b = probe.draw(3 * trial + 3, 0), none = probe.unit();
      for (const auto& [left, right] : {std::pair{&a, &b}, {&b, &a}, {&a, &none}, {&none, &a}, {&none, &none}})
        if (!probe.alike(*left, *right)) return false;
    }
  }
  return true;
}

double value_of_empty_row(const Recurrence& recurrence, const RowValue& output) {
  RandomBindings bindings(11, 0.3, 1.7);
  for (const Slot& slot : recurrence.slots) bindings.set(slot.name, unit_of(slot.op));
  return bindings(output.value);
}

}  // namespace astatide
