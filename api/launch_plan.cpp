#include "api/launch_plan.h"

#include <algorithm>

namespace astatide {

MapForm map_form(const tile::Parameter& parameter, std::size_t rank) {
  MapForm form;
  form.rows = parameter.rows;
  form.order.push_back(static_cast<std::size_t>(parameter.inner));
  if (parameter.packed) {
    form.order.push_back(static_cast<std::size_t>(parameter.packed->fast_dim));
    form.run = parameter.packed->length;
  }
  form.order.push_back(static_cast<std::size_t>(parameter.dim));
  for (std::size_t dim = rank; dim-- > 0;)
    if (std::find(form.order.begin(), form.order.end(), dim) == form.order.end()) form.order.push_back(dim);
  return form;
}

bool KernelPlan::is_persistent() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const tile::Parameter& parameter) { return parameter.kind == tile::Parameter::Kind::counter; });
}

LaunchPlan plan_launch(const tile::Program& program) {
  LaunchPlan plan;
  for (const tile::Kernel& kernel : program.kernels) {
    KernelPlan& out = plan.kernels.emplace_back();
    for (const tile::TileAxis& axis : kernel.tiles) {
      const Expr steps = max(Expr(0), kernel.steps_along(axis));
      const bool clusters = kernel.cluster && kernel.cluster->var == axis.var;
      out.grid.push_back({axis.var, clusters ? steps * Expr(kernel.cluster->blocks) : steps});
    }
    out.parameters = tile::parameters_of(program, kernel);
  }
  for (const tile::Tensor& tensor : program.tensors) {
    if (tensor.role == tile::Tensor::Role::scratch) plan.scratch.push_back(tensor);
    if (tensor.role == tile::Tensor::Role::counters) plan.counters.push_back(tensor);
  }
  if (program.parts)
    plan.chosen = LaunchPlan::Chosen{program.parts->extent,
                                     tile::choice_of_parts(*program.parts, variable(LaunchPlan::kResident)),
                                     program.number_of(program.parts->kernel)};
  return plan;
}

}  // namespace astatide
