#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_elements.h"
#include "compiler/tile/lower_passes.h"

namespace astatide::tile {
namespace {

class CascadeLowering {
 public:
  CascadeLowering(const Algorithm& algorithm, const Cascade& cascade, const Schedule& schedule,
                  const LowerOptions& options)
      : cascade_(cascade),
        lowering_(algorithm, schedule, options, cascade.axis, cascade.rows, cascade.axis_extents, cascade.values),
        passes_(find_passes(cascade, schedule)) {}

  Program run() {
    lowering_.check_elements(cascade_.elements);
    check_values();
    plan_kernels();
    for (PlannedKernel& planned : kernels_) {
      KernelBuilder builder(lowering_, *planned.placement, planned.name);
      lowering_.program.kernels.push_back(PassBuilder(lowering_, passes_, planned, builder).build());
    }
    return std::move(lowering_.program);
  }

 private:
  const Placement& main_placement() const {
    for (const Placement& placement : lowering_.schedule.placements)
      for (const RowValue& value : cascade_.values)
        if (value.output && value.name == placement.name && !along_axis(value)) return placement;
    return nothing_;
  }

  void check_values() const {
    for (const RowValue& value : cascade_.values)
      for (const std::string& index : value.indices)
        if (along_axis(value) && index != cascade_.axis && !contains(cascade_.rows, index))
          throw UserError(value.where, value.name + " varies along " + cascade_.axis + " and with " + index +
                                           ", and no tile has both: " + index + " is no row of what is reduced");
  }

  /// Throws UserError where an output along the axis is computed inside another's kernel, which would not store it.
  void check_is_root(const std::string& name, const Placement* placement) const {
    if (is_root(placement, true)) return;
    throw UserError(placement ? placement->where : lowering_.schedule.where,
                    "the output " + name + " varies along " + cascade_.axis + ", so it has a kernel of its own",
                    {name + ": {compute_root: true, tile: {...}, ...}"});
  }

  bool along_axis(const RowValue& value) const { return contains(value.indices, cascade_.axis); }

  bool is_root(const Placement* placement, bool output) const {
    return placement && (placement->compute_root() || (output && !placement->compute_at()));
  }

  /// Kernels in launch order: elements at root, weights at root, and the one of the outputs' rows.
  void plan_kernels() {
    const std::string& program = lowering_.algorithm.name;
    for (const TiledElement& element : passes_.elements) {
      const bool output = std::any_of(element.names.begin(), element.names.end(),
                                      [&](const auto& n) { return contains(lowering_.algorithm.outputs, n); });
      if (output) check_is_root(element.tile_name, element.placement);
      if (!is_root(element.placement, output)) continue;
      PlannedKernel kernel{program + "_" + element.tile_name, element.placement};
      kernel.stored = element.names.back();
      kernels_.push_back(std::move(kernel));
    }
    for (const PassWeight& weight : passes_.weights) {
      const Placement* placement = lowering_.schedule.find(weight.name);
      const bool output = contains(lowering_.algorithm.outputs, weight.name);
      if (output) check_is_root(weight.name, placement);
      if (!is_root(placement, output)) continue;
      PlannedKernel kernel{program + "_" + weight.name, placement};
      kernel.stored = weight.name;
      kernels_.push_back(std::move(kernel));
    }
    const bool rows = std::any_of(cascade_.values.begin(), cascade_.values.end(),
                                  [&](const RowValue& v) { return v.output && !along_axis(v); });
    if (rows || kernels_.empty()) kernels_.push_back({program, &main_placement()});
    if (kernels_.size() > 1 && rows) kernels_.back().name += "_" + main_placement().name;
    assign_stages();
    assign_values();
    add_tensors();
  }

  /// Each stage is computed in the first kernel that needs it.
  void assign_stages() {
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const bool last = k + 1 == kernels_.size();
      std::set<std::string> needed;
      if (!kernels_[k].stored.empty()) needed = passes_.stages_under(variable(kernels_[k].stored));
      if (last)
        for (const RowValue& value : cascade_.values)
          if (value.output)
            for (const Expr& e : expressions_of(value)) needed.merge(passes_.stages_under(e));
      for (const PassStage& stage : passes_.stages)
        if (needed.contains(stage.name) && !kernel_of_stage_.contains(stage.name)) {
          kernel_of_stage_[stage.name] = k;
          kernels_[k].stages.push_back(stage.name);
        }
    }
  }

  static std::vector<Expr> expressions_of(const RowValue& value) {
    std::vector<Expr> out = value.where_predicates;
    out.push_back(value.value);
    return out;
  }
  /// Stages that an output reads.
  std::set<std::string> read_by(const RowValue& value) const {
    std::set<std::string> out;
    for (const Expr& e : expressions_of(value)) out.merge(passes_.direct_stages(e));
    return out;
  }

  /// Each output stands in the first kernel that has all that it reads.
  void assign_values() {
    for (const RowValue& value : cascade_.values) {
      if (!value.output || along_axis(value)) continue;
      std::size_t kernel = 0;
      const std::set<std::string> read = read_by(value);
      for (const std::string& stage : read) kernel = std::max(kernel, kernel_of_stage_.at(stage));
      if (read.empty()) kernel = kernels_.size() - 1;
      kernels_[kernel].outputs.push_back(&value);
    }
  }

  /// What a later kernel reads goes through global memory.
  void add_tensors() {
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      if (kernels_[k].stored.empty()) continue;
      const std::string& name = kernels_[k].stored;
      const RowValue* output = output_along_axis(name);
      std::vector<std::string> axes = cascade_.rows;
      axes.push_back(cascade_.axis);
      // An output holds 0 where it is absent, so only one without predicates can be read again.
      const bool shared = output && output->indices == axes && output->stored_at.empty() &&
                          output->where_predicates.empty() &&
                          lowering_.program.find_tensor(name)->type == ScalarType::f32;
      if (output) kernels_[k].output_along_axis = output;
      const std::string base = passes_.tile_name(name) + "_root";
      passes_.roots[name] = {shared ? name : lowering_.add_scratch(base, axes), axes};
      kernels_[k].tensor = passes_.roots[name].tensor;
    }
    for (std::size_t k = 1; k < kernels_.size(); ++k) {
      std::set<std::string> read;
      for (const std::string& stage : kernels_[k].stages) read.merge(passes_.read_by_stage(stage));
      for (const RowValue* value : kernels_[k].outputs) read.merge(read_by(*value));
      if (!kernels_[k].stored.empty()) read.merge(passes_.read_by(variable(kernels_[k].stored), true));
      for (const PassStage& stage : passes_.stages) {
        if (!read.contains(stage.name) || kernel_of_stage_.at(stage.name) >= k) continue;
        if (!passes_.row_tensors.contains(stage.name)) {
          std::vector<std::string> axes = cascade_.rows;
          axes.insert(axes.end(), stage.extra.begin(), stage.extra.end());
          passes_.row_tensors[stage.name] = {lowering_.add_scratch(stage.name + "_root", axes), axes};
          kernels_[kernel_of_stage_.at(stage.name)].stored_stages.push_back(stage.name);
        }
        kernels_[k].loaded_stages.push_back(stage.name);
      }
    }
  }

  const RowValue* output_along_axis(const std::string& name) const {
    for (const RowValue& value : cascade_.values)
      if (value.output && along_axis(value) && value.value == variable(name)) return &value;
    for (const RowValue& value : cascade_.values)
      if (value.output && along_axis(value) && value.name == name) return &value;
    return nullptr;
  }

  const Cascade& cascade_;
  const Placement nothing_;
  Lowering lowering_;
  Passes passes_;
  std::vector<PlannedKernel> kernels_;
  std::map<std::string, std::size_t> kernel_of_stage_;
};

}  // namespace

Program lower_cascade(const Algorithm& algorithm, const Cascade& cascade, const Schedule& schedule,
                      const LowerOptions& options) {
  return CascadeLowering(algorithm, cascade, schedule, options).run();
}

}  // namespace astatide::tile
