#include "compiler/rewrite/gauge.h"

#include <algorithm>
#include <cmath>

#include "compiler/rewrite/value_of.h"

namespace astatide {

namespace {

constexpr unsigned kTrials = 20;

class GaugeProbe {
 public:
  explicit GaugeProbe(const Recurrence& recurrence) : recurrence_(recurrence) {}

  /// An output that changes when the reference and all that moves with it do; empty: none does.
  std::string shown_by(const std::string& reference) const {
    for (unsigned trial = 0; trial < kTrials; ++trial) {
      // Shifts keep a maximum of absolute values positive.
      RandomBindings before(2 * trial + 1, 0.3, 1.7), shifts(2 * trial + 2, -0.25, 0.7), after = before;
      // Old values under the slots' names, new ones under new_value_name().
      RandomBindings moving = before;
      for (const Slot& slot : recurrence_.slots) {
        const double old_value = before(variable(slot.name));
        double new_value = old_value;
        if (slot.name == reference) {
          new_value += shifts(variable(reference));
        } else {
          new_value = moving(slot.move);
        }
        moving.set(new_value_name(slot.name), new_value);
        after.set(slot.name, new_value);
      }
      for (const RowValue& value : recurrence_.values) {
        const double x = before(value.value), y = after(value.value);
        if (!(std::abs(x - y) <= 1e-9 * (1 + std::abs(x)))) return value.name;
      }
    }
    return "";
  }

 private:
  const Recurrence& recurrence_;
};

}  // namespace

void find_gauges(Recurrence& recurrence) {
  const GaugeProbe probe(recurrence);
  for (Slot& slot : recurrence.slots) {
    const bool is_reference = std::any_of(recurrence.slots.begin(), recurrence.slots.end(), [&](const Slot& other) {
      return std::find(other.references.begin(), other.references.end(), slot.name) != other.references.end();
    });
    if (!is_reference || slot.op == Reduction::sum) continue;
    slot.shown_by = probe.shown_by(slot.name);
    slot.gauge = slot.shown_by.empty();
  }
}

}  // namespace astatide
