#include <algorithm>

#include "compiler/algorithm/check_definition.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

/// Whether nothing but integers and conditions of tensors decides a condition.
bool is_of_integers(const Expr& predicate, const NameKinds& names) {
  if (const auto* r = predicate.as<Read>()) return names.integer_tensors.contains(r->tensor);
  const auto* c = predicate.as<Call>();
  if (!c) return false;
  if (c->op == Op::logical_and || c->op == Op::logical_or || c->op == Op::logical_not)
    return std::all_of(c->args.begin(), c->args.end(), [&](const Expr& e) { return is_of_integers(e, names); });
  bool chosen_by_integers = true;
  visit(predicate, [&](const Expr& e) {
    if (e.is_call(Op::select)) chosen_by_integers = chosen_by_integers && is_of_integers(e.as<Call>()->args[0], names);
  });
  return chosen_by_integers &&
         std::all_of(c->args.begin(), c->args.end(), [&](const Expr& e) { return is_built_from_integers(e, names); });
}

/// A launch that is repeated stores the same again only where no update reads what it or a later one stores.
void check_reads_of_update(std::size_t number, const Scope& scope, Diagnostics& errors) {
  const std::vector<Func>& updates = scope.algorithm.updates;
  const Func& update = updates[number];
  const auto look = [&](const Expr& e) {
    const auto* r = e.as<Read>();
    if (!r) return;
    for (std::size_t n = number; n < updates.size(); ++n) {
      if (updates[n].name != r->tensor) continue;
      errors.error(place_in(update.where, e),
                   "the update of " + update.name + " reads " + r->tensor + ", into which " +
                       (n == number ? "it" : "a later one") + " stores",
                   {"a launch may be repeated, and would read what the one before it has stored; give the values an "
                    "input of their own"});
      return;
    }
  };
  visit(update.value, look);
}

}  // namespace

void check_update(std::size_t number, Scope& scope, Diagnostics& errors) {
  const Func& update = scope.algorithm.updates[number];
  const Input* input = scope.algorithm.find_input(update.name);
  if (!input) {
    std::vector<std::string> inputs;
    for (const Input& candidate : scope.algorithm.inputs) inputs.push_back(candidate.name);
    scope.unresolved = true;
    errors.error(update.where, "an update stores into an input, and '" + quoted(update.name) + "' is none",
                 suggestion(update.name, inputs));
    return;
  }
  scope.used_tensors.insert(update.name);
  if (input->dtype && (!is_floating(*input->dtype) || *input->dtype == ScalarType::f64))
    errors.error(update.where,
                 "an update stores into " + update.name + ", which holds " + std::string(name_of(*input->dtype)),
                 {"updates store f32, f16 and bf16: they compute in f32, and what indices read is looked at before a "
                  "launch"});
  if (update.stored.size() != input->dims.size())
    errors.error(update.where, update.name + " has " + std::to_string(input->dims.size()) +
                                   (input->dims.size() == 1 ? " dimension" : " dimensions") + ", found " +
                                   std::to_string(update.stored.size()) +
                                   (update.stored.size() == 1 ? " place" : " places"));
  const auto is_definition = [&](const std::string& name) {
    return scope.algorithm.find_func(name) && !scope.algorithm.find_input(name);
  };
  bool reads_definitions = false;
  const auto look = [&](const Expr& e) {
    if (const auto* r = e.as<Read>(); r && is_definition(r->tensor)) {
      reads_definitions = true;
      errors.error(place_in(update.where, e),
                   "the update of " + update.name + " reads " + r->tensor + ", which is a definition",
                   {"updates are done before everything is defined, and read inputs"});
    }
    if (const auto* r = e.as<Reduce>())
      errors.error(place_in(update.where, e), "the update of " + update.name + " reduces over " + quoted(r->axis),
                   {"an update stores element by element; an input can hold what was reduced before"});
  };
  const std::size_t before = errors.size();
  visit(update.value, look);
  if (update.where_predicate) visit(*update.where_predicate, look);
  if (errors.size() > before) {
    scope.unresolved = scope.unresolved || reads_definitions;
    return;
  }
  check_reads_of_update(number, scope, errors);
  check_definition(update, scope, errors);
  if (errors.size() == before && update.where_predicate &&
      !is_of_integers(*update.where_predicate, name_kinds(scope.algorithm)))
    errors.error(place_in(update.where, *update.where_predicate), "the condition of an update is not one of integers",
                 {"which elements are stored depends on axes, extents and inputs of integers"});
}

}  // namespace astatide
