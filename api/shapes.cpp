#include "api/shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

std::vector<std::string> names_of(const std::vector<DeclaredTensor>& declared) {
  std::vector<std::string> names;
  for (const DeclaredTensor& tensor : declared) names.push_back(tensor.name);
  return names;
}

/// An extent, and the tensor whose shape shows it.
struct Shown {
  std::int64_t value = 0;
  std::string by;
};

bool is_known(const Expr& dim, const std::map<std::string, Shown>& shown) {
  const std::set<std::string> names = free_variables(dim);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return shown.contains(name); });
}

Extents values_of(const std::map<std::string, Shown>& shown) {
  Extents values;
  for (const auto& [name, one] : shown) values[name] = one.value;
  return values;
}

bool is_over_extents(const Expr& e, const Algorithm& algorithm) {
  const std::set<std::string> names = free_variables(e);
  return std::all_of(names.begin(), names.end(), [&](const std::string& n) { return algorithm.find_extent(n); });
}

/// axis * onto / from of an index, where axis runs over 0 .. from - 1.
void add_group(const Expr& e, const Algorithm& algorithm, const std::map<std::string, Expr>& axes,
               std::vector<AxisGroup>& groups) {
  const auto* division = e.as<Call>();
  if (division == nullptr || division->op != Op::floor_div) return;
  const auto* product = division->args[0].as<Call>();
  if (product == nullptr || product->op != Op::mul) return;
  for (int side = 0; side < 2; ++side) {
    const auto* axis = product->args[static_cast<std::size_t>(side)].as<Variable>();
    const Expr& onto = product->args[static_cast<std::size_t>(1 - side)];
    const Expr& from = division->args[1];
    if (axis == nullptr || !is_over_extents(onto, algorithm) || free_variables(onto).empty()) continue;
    const auto extent = axes.find(axis->name);
    if (extent == axes.end() || !(extent->second == from)) continue;
    groups.push_back({print_expr(e, name_kinds(algorithm), true), from, onto});
    return;
  }
}

}  // namespace

std::string describe(const DeclaredTensor& tensor) {
  std::string text;
  for (const Expr& dim : tensor.dims) text += (text.empty() ? "" : ", ") + print_expr(dim, {}, true);
  return tensor.name + "[" + text + "]";
}

std::vector<DeclaredTensor> declared_tensors(const Algorithm& algorithm) {
  std::vector<DeclaredTensor> declared;
  for (const Input& input : algorithm.inputs)
    declared.push_back({input.name, input.dims, false, algorithm.updates_input(input.name)});
  for (const std::string& output : algorithm.outputs)
    declared.push_back({output, shape_of(algorithm, output), true, false});
  return declared;
}

Extents solve_extents(const std::vector<DeclaredTensor>& declared, const std::map<std::string, TensorView>& tensors,
                      const Extents& given, Diagnostics& errors) {
  std::map<std::string, Shown> shown;
  for (const auto& [name, value] : given) shown[name] = {value, "the request"};
  for (const auto& [name, view] : tensors) {
    const auto found = std::find_if(declared.begin(), declared.end(), [&](const auto& d) { return d.name == name; });
    if (found == declared.end()) {
      const std::string near = nearest_name(name, names_of(declared));
      errors.error({}, fmt::format("the algorithm has no tensor {}", quoted(name)),
                   {near.empty() ? fmt::format("it has {}", fmt::join(names_of(declared), ", "))
                                 : fmt::format("did you mean {}?", near)});
    } else if (view.shape.size() != found->dims.size()) {
      errors.error({}, fmt::format("{} has {} dimensions, {} has {}", name, view.shape.size(), describe(*found),
                                   found->dims.size()));
    }
  }
  if (!errors.empty()) return values_of(shown);

  // Extents by themselves first, in the order of declaration, then the expressions over them.
  for (const bool alone : {true, false}) {
    for (const DeclaredTensor& tensor : declared) {
      const auto view = tensors.find(tensor.name);
      if (view == tensors.end()) continue;
      for (std::size_t n = 0; n < tensor.dims.size(); ++n) {
        const Expr& dim = tensor.dims[n];
        const std::int64_t size = view->second.shape[n];
        const auto* extent = dim.as<Variable>();
        if ((extent != nullptr) != alone) continue;
        if (extent != nullptr) {
          const auto [entry, added] = shown.try_emplace(extent->name, Shown{size, tensor.name});
          if (added || entry->second.value == size) continue;
          errors.error({}, fmt::format("{} is {} in {} and {} in {}", extent->name, entry->second.value,
                                       entry->second.by, size, tensor.name));
        } else if (is_known(dim, shown)) {
          const std::int64_t wanted = evaluate_integer(dim, values_of(shown));
          if (wanted == size) continue;
          errors.error({}, fmt::format("dimension {} of {} is {}, {} is {}", n + 1, tensor.name, size,
                                       print_expr(dim, {}, true), wanted));
        }
      }
    }
  }
  return values_of(shown);
}

void check_extents(const Algorithm& algorithm, const Extents& extents, Diagnostics& errors) {
  for (const auto& [name, value] : extents) {
    if (algorithm.find_extent(name) == nullptr) {
      std::vector<std::string> known;
      for (const Extent& extent : algorithm.extents) known.push_back(extent.name);
      const std::string near = nearest_name(name, known);
      errors.error(
          {}, fmt::format("the algorithm has no extent {}", quoted(name)),
          {near.empty() ? fmt::format("it has {}", fmt::join(known, ", ")) : fmt::format("did you mean {}?", near)});
    } else if (value < 0 || value > kLargestExtent) {
      errors.error({}, fmt::format("{} is {}, extents are 0 to {}", name, value, kLargestExtent));
    }
  }
  for (const Extent& extent : algorithm.extents)
    if (!extents.contains(extent.name)) errors.error({}, "nothing says how large " + extent.name + " is");
}

std::vector<std::int64_t> evaluate_shape(const std::vector<Expr>& dims, const Extents& extents) {
  std::vector<std::int64_t> shape;
  for (const Expr& dim : dims) shape.push_back(evaluate_integer(dim, extents));
  return shape;
}

std::vector<AxisGroup> find_axis_groups(const Algorithm& algorithm) {
  Diagnostics ignored;  // a checked algorithm has none
  const std::map<std::string, Expr> axes = infer_axis_extents(algorithm, ignored);
  std::vector<AxisGroup> groups;
  const auto look = [&](const Expr& e) {
    const auto* read = e.as<Read>();
    if (read == nullptr) return;
    for (const Expr& index : read->indices) add_group(index, algorithm, axes, groups);
  };
  for (const Func& update : algorithm.updates) {
    for (const Expr& place : update.stored) add_group(place, algorithm, axes, groups);
    visit(update.value, look);
  }
  for (const Func& func : algorithm.define) visit(func.value, look);
  return groups;
}

void check_axis_groups(const std::vector<AxisGroup>& groups, const Extents& extents, Diagnostics& errors) {
  std::set<std::string> reported;
  for (const AxisGroup& group : groups) {
    const std::int64_t from = evaluate_integer(group.from, extents);
    const std::int64_t onto = evaluate_integer(group.onto, extents);
    if (astatide_groups_are_even(from, onto)) continue;
    if (!reported.insert(group.text).second) continue;
    const std::string from_name = print_expr(group.from, {}, true);
    const std::string onto_name = print_expr(group.onto, {}, true);
    errors.error({},
                 fmt::format("{} maps {} = {} onto {} = {} in groups of unequal size", group.text, from_name, from,
                             onto_name, onto),
                 {fmt::format("{} must be a multiple of {}", from_name, onto_name)});
  }
}

}  // namespace astatide
