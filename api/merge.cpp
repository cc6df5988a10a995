#include <fmt/format.h>

#include "api/astatide.h"

namespace astatide {
namespace {

std::int64_t distance_of(const TensorView& a, const TensorView& b) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b.data) - reinterpret_cast<std::uintptr_t>(a.data));
}

/// The tensors of an output of all parts as one, with the parts for its first dimension.
TensorView as_one(const std::string& output, const std::vector<const TensorView*>& parts, Diagnostics& errors) {
  TensorView all = *parts.front();
  const int size = size_in_bytes(all.dtype);
  const std::int64_t step = parts.size() > 1 ? distance_of(*parts[0], *parts[1]) : 0;
  bool empty = false;
  for (const std::int64_t extent : all.shape) empty = empty || extent == 0;
  for (std::size_t n = 1; n < parts.size(); ++n) {
    const TensorView& part = *parts[n];
    if (part.dtype != all.dtype || part.shape != all.shape || part.strides != all.strides) {
      errors.error({},
                   fmt::format("{} of part {} has another type, shape or other strides than that of part 0", output, n),
                   {fmt::format("part 0: {} [{}] with strides [{}], part {}: {} [{}] with strides [{}]",
                                name_of(all.dtype), fmt::join(all.shape, ", "), fmt::join(all.strides, ", "), n,
                                name_of(part.dtype), fmt::join(part.shape, ", "), fmt::join(part.strides, ", "))});
    } else if (!empty && (distance_of(*parts[n - 1], part) != step || step % size != 0)) {
      errors.error({},
                   fmt::format("{} of part {} lies {} bytes behind that of part {}, part 1 lies {} behind part 0",
                               output, n, distance_of(*parts[n - 1], part), n - 1, step),
                   {"slices of one tensor lie equally far apart; two parts may lie anywhere"});
    }
  }
  all.shape.insert(all.shape.begin(), static_cast<std::int64_t>(parts.size()));
  all.strides.insert(all.strides.begin(), step / size);
  return all;
}

}  // namespace

LaunchArguments merge_arguments(const Executable& merge, const std::vector<std::map<std::string, TensorView>>& parts,
                                const std::map<std::string, TensorView>& outputs) {
  const std::map<std::string, std::string>& parts_of = merge.parts_of();
  if (parts_of.empty()) throw UserError("the executable is none of Engine::build_merge");
  if (parts.empty()) throw UserError("there is no part to merge", {"one is enough"});
  Diagnostics errors;
  LaunchArguments arguments;
  for (const auto& [output, input] : parts_of) {
    std::vector<const TensorView*> views;
    for (std::size_t n = 0; n < parts.size(); ++n) {
      const auto view = parts[n].find(output);
      if (view == parts[n].end()) {
        errors.error({}, fmt::format("part {} has no {}", n, output));
      } else {
        views.push_back(&view->second);
      }
    }
    if (views.size() == parts.size()) arguments.tensors[input] = as_one(output, views, errors);
  }
  for (std::size_t n = 0; n < parts.size(); ++n)
    for (const auto& [name, view] : parts[n])
      if (!parts_of.contains(name))
        errors.error({}, fmt::format("part {} has a tensor {}, which is no output", n, name));
  errors.throw_if_any();
  for (const auto& [name, view] : outputs) arguments.tensors[name] = view;
  return arguments;
}

}  // namespace astatide
