#include "compiler/rewrite/execute.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/rewrite/row_scope.h"
#include "compiler/support/diagnostic.h"

namespace astatide {

namespace {

/// Names of the elements that a term reads, through weights too.
std::set<std::string> elements_read(const Recurrence& recurrence, const Expr& term) {
  std::set<std::string> names = free_variables(term);
  for (std::size_t i = recurrence.weights.size(); i-- > 0;) {
    if (names.contains(recurrence.weights[i].name)) names.merge(free_variables(recurrence.weights[i].value));
  }
  return names;
}

bool any_absent(const std::set<std::string>& names, const std::set<std::string>& absent) {
  return std::any_of(absent.begin(), absent.end(), [&](const std::string& name) { return names.contains(name); });
}

}  // namespace

/// Names of slots and their values, old and new, at one value of the extra axes.
struct RowExecutor::Scope {
  Scope(const RowExecutor& executor) : executor_(executor), bindings(bindings_of(executor.inputs_)) {}

  /// Binds the slots' names, with `suffix_new` the names of their new values, to `state` where a value is known.
  void bind(const RowState& state, std::size_t count, bool new_values) {
    const auto& slots = executor_.recurrence_.slots;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t index = 0;
      bool bound = true;
      for (const std::string& axis : slots[i].extra) {
        const auto value = bindings.variables.find(axis);
        // A slot with an axis that this value has not got can't be read here.
        bound = bound && value != bindings.variables.end();
        if (!bound) break;
        index =
            index * static_cast<std::size_t>(length_of(executor_.recurrence_.axis_extents, axis, executor_.inputs_)) +
            static_cast<std::size_t>(value->second);
      }
      if (!bound) continue;
      const std::string name = new_values ? new_value_name(slots[i].name) : slots[i].name;
      bindings.variables[name] = state.slots[i][index];
    }
  }

  const RowExecutor& executor_;
  Bindings bindings;
};

RowExecutor::RowExecutor(const Recurrence& recurrence, RowInputs inputs)
    : recurrence_(recurrence), inputs_(std::move(inputs)) {}

RowState RowExecutor::identity() const {
  RowState state;
  for (const Slot& slot : recurrence_.slots) {
    state.slots.emplace_back(size_of(slot.extra, recurrence_.axis_extents, inputs_), unit_of(slot.op));
  }
  return state;
}

double RowExecutor::moved(const Slot& slot, const Scope& scope) const { return value_of(slot.move, scope.bindings); }

RowState RowExecutor::step(const RowState& state, const std::vector<std::int64_t>& positions,
                           const LazyReferences& lazy) const {
  std::vector<PositionValues> elements;
  for (std::int64_t position : positions) {
    elements.push_back(values_at(recurrence_.elements, recurrence_.axis, position, recurrence_.axis_extents, inputs_));
  }
  RowState next;
  for (std::size_t i = 0; i < recurrence_.slots.size(); ++i) {
    const Slot& slot = recurrence_.slots[i];
    const std::set<std::string> reads = elements_read(recurrence_, slot.term);
    next.slots.push_back(state.slots[i]);
    Scope outer(*this);
    for_each_index(slot.extra, recurrence_.axis_extents, inputs_, outer.bindings.variables, [&](std::size_t index) {
      Scope old = outer;
      old.bind(state, recurrence_.slots.size(), false);
      old.bind(next, i, true);
      // Own new value; the binding of the slot itself is not read by its own term.
      double total = moved(slot, old);
      Scope inner = outer;
      inner.bind(next, i, false);
      for (std::size_t k = 0; k < positions.size(); ++k) {
        if (slot.masked && any_absent(reads, elements[k].absent)) continue;
        inner.bindings.variables[recurrence_.axis] = static_cast<double>(positions[k]);
        for (const auto& [name, value] : elements[k].values) inner.bindings.variables[name] = value;
        for (const Weight& weight : recurrence_.weights) {
          if (reads.contains(weight.name)) {
            inner.bindings.variables[weight.name] = value_of(weight.value, inner.bindings);
          }
        }
        double value = value_of(slot.term, inner.bindings);
        if (slot.factor) value *= value_of(*slot.factor, inner.bindings);
        total = reduced(slot.op, total, value);
      }
      const double before = state.slots[i][index];
      if (lazy.window > 0 && (slot.gauge || lazy.even_where_refused) && slot.op != Reduction::sum &&
          std::isfinite(before) && total != before) {
        double growth = std::abs(total - before);
        if (slot.growth) {
          old.bindings.variables[new_value_name(slot.name)] = total;
          growth = value_of(*slot.growth, old.bindings);
        }
        if (growth <= lazy.window) total = before;
      }
      next.slots[i][index] = total;
    });
  }
  return next;
}

RowState RowExecutor::combine(const RowState& a, const RowState& b) const {
  RowState both;
  for (std::size_t i = 0; i < recurrence_.slots.size(); ++i) {
    const Slot& slot = recurrence_.slots[i];
    both.slots.push_back(a.slots[i]);
    Scope outer(*this);
    for_each_index(slot.extra, recurrence_.axis_extents, inputs_, outer.bindings.variables, [&](std::size_t index) {
      outer.bind(both, i, true);
      Scope of_a = outer, of_b = outer;
      of_a.bind(a, recurrence_.slots.size(), false);
      of_b.bind(b, recurrence_.slots.size(), false);
      both.slots[i][index] = reduced(slot.op, moved(slot, of_a), moved(slot, of_b));
    });
  }
  return both;
}

RowOutputs RowExecutor::finalize(const RowState& state) const {
  RowOutputs outputs;
  for (const RowValue& value : recurrence_.values) {
    std::vector<std::string> extra;
    for (const std::string& axis : value.indices) {
      if (std::find(recurrence_.rows.begin(), recurrence_.rows.end(), axis) == recurrence_.rows.end()) {
        extra.push_back(axis);
      }
    }
    std::vector<double>& result = outputs[value.name];
    Scope scope(*this);
    for_each_index(extra, recurrence_.axis_extents, inputs_, scope.bindings.variables, [&](std::size_t) {
      scope.bind(state, recurrence_.slots.size(), false);
      const bool present = std::all_of(value.where_predicates.begin(), value.where_predicates.end(),
                                       [&](const Expr& predicate) { return value_of(predicate, scope.bindings) != 0; });
      result.push_back(present ? value_of(value.value, scope.bindings) : 0);
    });
  }
  return outputs;
}

}  // namespace astatide
