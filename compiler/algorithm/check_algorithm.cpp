#include <algorithm>

#include "compiler/algorithm/check.h"
#include "compiler/algorithm/check_definition.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

class AlgorithmChecker {
 public:
  AlgorithmChecker(const Algorithm& algorithm, const Known& known, Diagnostics& errors)
      : algorithm_(algorithm), known_(known), errors_(errors), scope_{algorithm, known, {}, {}, {}, {}, false} {}

  void check() {
    check_names();
    scope_.axis_extents = infer_axis_extents(algorithm_, errors_);
    check_declarations();
    for (std::size_t n = 0; n < algorithm_.updates.size(); ++n) check_update(n, scope_, errors_);
    for (const Func& func : algorithm_.define) {
      check_definition(func, scope_, errors_);
      scope_.defined.insert(func.name);
    }
    if (known_.outputs) check_outputs();
    if (known_.sizes) check_sizes();
    if (known_.all_uses() && !algorithm_.outputs.empty() && !scope_.unresolved) check_uses();
  }

 private:
  void check_name(const std::string& name, const std::string& kind, const Location& where) {
    if (const std::string problem = problem_with_name(name); !problem.empty()) {
      errors_.error(where, kind + " '" + quoted(name) + "' " + problem);
      scope_.unresolved = true;
      return;
    }
    const auto [known, added] = kinds_.emplace(name, kind);
    scope_.unresolved = scope_.unresolved || !added;
    if (!added)
      errors_.error(where, kind + " " + name +
                               (known->second == kind ? " is declared twice"
                                                      : " has the name of the " + known->second + " " + name));
  }

  void check_names() {
    const std::string problem = problem_with_name(algorithm_.name);
    if (known_.name && !problem.empty())
      errors_.error(algorithm_.where, "the algorithm's name '" + quoted(algorithm_.name) + "' " + problem);
    for (const Extent& extent : algorithm_.extents) check_name(extent.name, "extent", extent.where);
    for (const Scalar& scalar : algorithm_.scalars) check_name(scalar.name, "scalar", scalar.where);
    for (const Input& input : algorithm_.inputs) check_name(input.name, "input", input.where);
    for (const Func& func : algorithm_.define) check_name(func.name, "definition", func.where);
    std::set<std::string> reported;
    for (const Func& update : algorithm_.updates)
      for (const std::string& axis : update.indices) check_axis(axis, update.where, reported);
    for (const Func& func : algorithm_.define) {
      std::set<std::string> own;
      for (const std::string& axis : func.indices) {
        if (!own.insert(axis).second)
          errors_.error(func.where, "axis " + quoted(axis) + " stands twice in " + func.name);
        check_axis(axis, func.where, reported);
      }
      visit(func.value, [&](const Expr& e) {
        // An extent or scalar as the axis of a reduction is called wrong where the types are checked.
        if (const auto* r = e.as<Reduce>(); r && !algorithm_.find_extent(r->axis) && !algorithm_.find_scalar(r->axis))
          if (problem_with_name(r->axis).empty()) check_axis(r->axis, func.where, reported);
      });
    }
    axes_ = reported;
    for (const auto& [axis, extent] : algorithm_.axes)
      if (!axes_.contains(axis))
        errors_.error(place_of_axis(axis), "'" + quoted(axis) + "' in axes is no axis of any definition",
                      suggestion(axis, {axes_.begin(), axes_.end()}));
  }

  const Location& place_of_axis(const std::string& axis) const {
    const auto found = known_.axes.find(axis);
    return found == known_.axes.end() ? algorithm_.where : found->second;
  }

  void check_axis(const std::string& axis, const Location& where, std::set<std::string>& seen) {
    if (!seen.insert(axis).second) return;
    if (const std::string problem = problem_with_name(axis); !problem.empty())
      errors_.error(where, "axis '" + quoted(axis) + "' " + problem);
    else if (const auto taken = kinds_.find(axis); taken != kinds_.end())
      errors_.error(where, "axis " + axis + " has the name of the " + taken->second + " " + axis);
  }

  void check_declarations() {
    if (algorithm_.extents.empty()) errors_.error(algorithm_.where, "an algorithm needs at least one extent");
    std::set<std::string> above;
    for (const Scalar& scalar : algorithm_.scalars) {
      if (scalar.default_value) check_default(scalar, above, scope_, errors_);
      above.insert(scalar.name);
    }
    // A scalar that only another's default reads is used; one that nothing reads was not yet seen.
    for (const Input& input : algorithm_.inputs)
      for (const Expr& dim : input.dims)
        check_extent_expression(dim, "a dimension of " + input.name, input.where, scope_, errors_);
    for (const auto& [axis, extent] : algorithm_.axes)
      if (!tensors_read(extent).empty())
        errors_.error(
            place_of_axis(axis),
            "axis " + quoted(axis) + " is " + print_expr(extent, {}, true) + " long, and no extent bounds that",
            {quoted(axis) + ": " + print_expr(extent, {}, true) + " <= EXTENT"});
      else
        check_extent_expression(extent, "the extent of axis " + quoted(axis), place_of_axis(axis), scope_, errors_);
    for (const auto& [axis, length] : algorithm_.lengths) check_length(axis, place_of_axis(axis), scope_, errors_);
    for (const Input& input : algorithm_.inputs)
      if (input.monotone && (!input.dtype || is_floating(*input.dtype) || input.dims.empty()))
        errors_.error(input.where, "input " + quoted(input.name) + " is monotone, and holds no row of integers",
                      {"monotone: true says that integers never decrease along the last dimension"});
    if (algorithm_.define.empty() && known_.unread.empty())
      errors_.error(algorithm_.where, "an algorithm needs at least one definition");
  }

  void check_outputs() {
    if (algorithm_.outputs.empty()) errors_.error(algorithm_.where, "an algorithm needs at least one output");
    std::set<std::string> seen;
    std::vector<std::string> names;
    for (const Func& func : algorithm_.define) names.push_back(func.name);
    for (const std::string& output : algorithm_.outputs) {
      if (!seen.insert(output).second)
        errors_.error(algorithm_.where, "output '" + quoted(output) + "' is named twice");
      if (!algorithm_.find_func(output) && !known_.unread.contains(output))
        errors_.error(algorithm_.where, "output '" + quoted(output) + "' is not defined", suggestion(output, names));
    }
    for (const auto& [output, dims] : algorithm_.output_dims) check_stored(output, dims);
    for (const Func& func : algorithm_.define)
      if (!func.stored.empty() && !algorithm_.output_dims.contains(func.name))
        errors_.error(func.where, func.name + " has places of its own, and no dimensions",
                      {"outputs: {" + func.name + ": [..]} gives them, one for each place"});
  }

  void check_stored(const std::string& output, const std::vector<Expr>& dims) {
    const Func* func = algorithm_.find_func(output);
    if (!func) return;
    for (const Expr& dim : dims)
      check_extent_expression(dim, "a dimension of " + quoted(output), func->where, scope_, errors_);
    if (func->stored.empty())
      errors_.error(func->where, output + " has dimensions in outputs, and its places are its axes",
                    {"the extents of its axes are its dimensions; leave them out"});
    if (func->stored.empty()) return;
    if (func->stored.size() != dims.size())
      errors_.error(func->where, output + " has " + std::to_string(func->stored.size()) +
                                     " places, and outputs gives it " + std::to_string(dims.size()) + " dimensions");
    for (const Func& reader : algorithm_.define)
      if (tensors_read(reader.value).contains(output) ||
          (reader.where_predicate && tensors_read(*reader.where_predicate).contains(output)))
        errors_.error(reader.where, reader.name + " reads " + output + ", which lies at places of its own",
                      {"give the value a definition at its own indices, which both read"});
  }

  void check_sizes() {
    for (const auto& [extent, size] : algorithm_.sizes) {
      if (!algorithm_.find_extent(extent))
        errors_.error(algorithm_.where, "'" + quoted(extent) + "' in sizes is no extent");
      if (size < 0)
        errors_.error(algorithm_.where,
                      "the size of " + quoted(extent) + " is " + std::to_string(size) + ", the least is 0");
    }
    if (algorithm_.sizes.empty()) return;
    for (const Extent& extent : algorithm_.extents)
      if (!algorithm_.sizes.contains(extent.name))
        errors_.error(extent.where, "extent " + quoted(extent.name) + " has no size",
                      {"sizes holds a value for every extent, or is left out"});
  }

  void check_uses() {
    std::set<std::string> reached(algorithm_.outputs.begin(), algorithm_.outputs.end());
    // Definitions read earlier ones only, so one walk upwards reaches everything.
    for (auto func = algorithm_.define.rbegin(); func != algorithm_.define.rend(); ++func) {
      if (!reached.contains(func->name)) {
        errors_.error(func->where, "definition " + func->name + " is not used by any output",
                      {"remove it, or add it to outputs"});
        continue;
      }
      reached.merge(tensors_read(func->value));
      if (func->where_predicate) reached.merge(tensors_read(*func->where_predicate));
    }
    for (const Input& input : algorithm_.inputs)
      if (!scope_.used_tensors.contains(input.name))
        errors_.error(input.where, "input " + quoted(input.name) + " is not used", {"remove it"});
    for (const Extent& extent : algorithm_.extents)
      if (!scope_.used_names.contains(extent.name))
        errors_.error(extent.where, "extent " + quoted(extent.name) + " is not used", {"remove it"});
    for (const Scalar& scalar : algorithm_.scalars)
      if (!scope_.used_names.contains(scalar.name))
        errors_.error(scalar.where, "scalar " + quoted(scalar.name) + " is not used", {"remove it"});
  }

  const Algorithm& algorithm_;
  const Known& known_;
  Diagnostics& errors_;
  Scope scope_;
  std::map<std::string, std::string> kinds_;
  std::set<std::string> axes_;
};

}  // namespace

void check_into(const Algorithm& algorithm, const Known& known, Diagnostics& errors) {
  AlgorithmChecker(algorithm, known, errors).check();
}

void check_algorithm(const Algorithm& algorithm) {
  Diagnostics errors;
  check_into(algorithm, {}, errors);
  errors.throw_if_any();
}

}  // namespace astatide
