#include "compiler/rewrite/fresh_names.h"

#include "compiler/rewrite/recurrence.h"

namespace astatide {

namespace {

void add_names(std::set<std::string>& names, const Expr& e) {
  visit(e, [&](const Expr& node) {
    if (const auto* v = node.as<Variable>()) names.insert(v->name);
    if (const auto* r = node.as<Read>()) names.insert(r->tensor);
    if (const auto* r = node.as<Reduce>()) names.insert(r->axis);
  });
}

}  // namespace

std::string FreshNames::fresh(const std::string& base) {
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? base : base + "_" + std::to_string(i);
    if (taken_.contains(name) || taken_.contains(new_value_name(name))) continue;
    taken_.insert(name);
    taken_.insert(new_value_name(name));
    return name;
  }
}

std::set<std::string> names_of(const Algorithm& algorithm) {
  std::set<std::string> names;
  for (const Extent& extent : algorithm.extents) names.insert(extent.name);
  for (const Scalar& scalar : algorithm.scalars) names.insert(scalar.name);
  for (const Input& input : algorithm.inputs) names.insert(input.name);
  for (const Func& func : algorithm.define) {
    names.insert(func.name);
    names.insert(func.indices.begin(), func.indices.end());
    add_names(names, func.value);
    if (func.where_predicate) add_names(names, *func.where_predicate);
  }
  return names;
}

std::set<std::string> names_of(const Cascade& cascade) {
  std::set<std::string> names;
  for (const auto& [axis, extent] : cascade.axis_extents) {
    names.insert(axis);
    add_names(names, extent);
  }
  for (const Element& element : cascade.elements) {
    names.insert(element.name);
    add_names(names, element.value);
    for (const Expr& predicate : element.where_predicates) add_names(names, predicate);
    if (!element.product) continue;
    add_names(names, element.product->lhs);
    add_names(names, element.product->rhs);
  }
  for (const Stage& stage : cascade.stages) {
    names.insert(stage.name);
    add_names(names, stage.term);
  }
  for (const RowValue& value : cascade.values) {
    names.insert(value.name);
    add_names(names, value.value);
  }
  return names;
}

}  // namespace astatide
