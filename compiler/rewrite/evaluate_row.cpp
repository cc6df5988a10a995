#include <algorithm>

#include "compiler/rewrite/row_scope.h"

namespace astatide {

namespace {

class RowEvaluator {
 public:
  RowEvaluator(const Cascade& cascade, const RowInputs& inputs, const std::vector<std::int64_t>& positions)
      : cascade_(cascade), inputs_(inputs), positions_(positions), bindings_(bindings_of(inputs)) {
    for (std::int64_t position : positions) {
      elements_.push_back(values_at(cascade.elements, cascade.axis, position, cascade.axis_extents, inputs));
    }
  }

  RowOutputs run() {
    RowOutputs outputs;
    for (const RowValue& value : cascade_.values) {
      if (!value.output || varies_along_axis(value.value)) continue;
      std::vector<std::string> extra;
      for (const std::string& axis : value.indices) {
        if (std::find(cascade_.rows.begin(), cascade_.rows.end(), axis) == cascade_.rows.end()) extra.push_back(axis);
      }
      for_each_index(extra, cascade_.axis_extents, inputs_, bindings_.variables, [&](std::size_t) {
        // Stages depend on the extra axes, so all of them are computed again for each value.
        for (const Stage& stage : cascade_.stages) bindings_.variables[stage.name] = value_of_stage(stage);
        const bool present = std::all_of(value.where_predicates.begin(), value.where_predicates.end(),
                                         [&](const Expr& e) { return value_of(e, bindings_) != 0; });
        outputs[value.name].push_back(present ? value_of(value.value, bindings_) : 0);
      });
      for (const std::string& axis : extra) bindings_.variables.erase(axis);
    }
    return outputs;
  }

 private:
  bool varies_along_axis(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return names.contains(cascade_.axis) ||
           std::any_of(cascade_.elements.begin(), cascade_.elements.end(),
                       [&](const Element& element) { return names.contains(element.name); });
  }

  double value_of_stage(const Stage& stage) const {
    // A stage over an extra axis that this output has not got is not read by it.
    for (const std::string& axis : stage.extra) {
      if (!bindings_.variables.contains(axis)) return 0;
    }
    const std::set<std::string> names = free_variables(stage.term);
    double total = unit_of(stage.op);
    Bindings inner = bindings_;
    for (std::size_t k = 0; k < positions_.size(); ++k) {
      const bool absent = std::any_of(elements_[k].absent.begin(), elements_[k].absent.end(),
                                      [&](const std::string& name) { return names.contains(name); });
      if (absent) continue;
      inner.variables[cascade_.axis] = static_cast<double>(positions_[k]);
      for (const auto& [name, value] : elements_[k].values) inner.variables[name] = value;
      total = reduced(stage.op, total, value_of(stage.term, inner));
    }
    return total;
  }

  const Cascade& cascade_;
  const RowInputs& inputs_;
  const std::vector<std::int64_t>& positions_;
  std::vector<PositionValues> elements_;
  Bindings bindings_;
};

}  // namespace

RowOutputs evaluate_row(const Cascade& cascade, const RowInputs& inputs, const std::vector<std::int64_t>& positions) {
  return RowEvaluator(cascade, inputs, positions).run();
}

}  // namespace astatide
