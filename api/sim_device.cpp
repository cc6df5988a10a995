#include "api/sim_device.h"

#include <fmt/format.h>

#include <cmath>

#include "api/astatide.h"
#include "api/executable_state.h"
#include "compiler/sim/simulate.h"
#include "runtime/host_tensor.h"

namespace astatide {
namespace {

class SimulatedCode : public DeviceCode {
 public:
  std::int64_t resident_blocks(std::size_t) const override { return kSimulatedBlocks; }
  bool uses_host_memory() const override { return true; }
  void copy_to_host(const void*, std::span<std::byte>, void*) const override {
    throw InternalError("tensors of a simulation lie with the host");
  }
  void check_pointer(const std::string&, const void*) const override {}
  std::unique_ptr<BoundLaunch> bind(std::vector<KernelLaunch>, std::int64_t) const override {
    throw InternalError("a simulation runs a program, not its kernels");
  }
};

template <class Visit>
void for_each_element(const TensorView& view, const Visit& visit) {
  runtime::for_each_element(static_cast<std::byte*>(view.data), view.dtype, view.shape, view.strides, visit);
}

bool is_same_number(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

/// The tensor that a copy brings into a tile of a kernel, or the tile itself.
std::string source_of(const tile::Program& program, const std::string& kernel, const std::string& tile) {
  std::string out = tile;
  for (const tile::Kernel& k : program.kernels) {
    if (k.name != kernel) continue;
    tile::walk(k.body, [&](const tile::Stmt& stmt) {
      const auto* copy = std::get_if<tile::Copy>(&stmt.node);
      const auto* dst = copy ? std::get_if<tile::TileName>(&copy->dst) : nullptr;
      const auto* view = copy ? std::get_if<tile::View>(&copy->src) : nullptr;
      if (dst && view && *dst == tile) out = view->tensor;
    });
  }
  return out;
}

SimulationFault fault_of(const sim::Finding& finding, const Compiled& compiled) {
  SimulationFault out{finding.what, finding.kernel, finding.agent, finding.statement, ""};
  const auto directive = compiled.directives.find(source_of(compiled.program, finding.kernel, finding.tile));
  if (directive != compiled.directives.end()) out.directive = directive->second;
  return out;
}

}  // namespace

std::shared_ptr<const DeviceCode> make_simulated_code() { return std::make_shared<SimulatedCode>(); }

std::map<std::string, std::string> directives_of(const Schedule& schedule) {
  std::map<std::string, std::string> out;
  for (const Placement& placement : schedule.placements)
    out[placement.name] = fmt::format("{} at {}", placement.name, format_location(placement.where));
  return out;
}

std::string to_text(const SimulationFault& fault) {
  std::string where = "kernel " + fault.kernel;
  if (!fault.agent.empty()) where += ", " + fault.agent;
  if (!fault.statement.empty()) where += ", `" + fault.statement + "`";
  if (!fault.directive.empty()) where += " (" + fault.directive + ")";
  return where + ":\n  " + fault.what;
}

SimulationReport simulate_launch(const Compiled& compiled, const LaunchArguments& arguments, const Extents& extents,
                                 const std::map<std::string, float>& scalars, const SimulationOptions& options) {
  Arguments given;
  given.extents = extents;
  for (const auto& [name, value] : scalars) given.scalars[name] = value;
  for (const Input& input : compiled.algorithm.inputs) {
    const TensorView& view = arguments.tensors.at(input.name);
    DoubleTensor& tensor = given.inputs[input.name];
    tensor.shape = view.shape;
    for_each_element(view,
                     [&](const std::byte* at) { tensor.values.push_back(runtime::load_element(view.dtype, at)); });
  }
  sim::Options how;
  how.seed = options.seed;
  how.resident = options.resident;
  how.preemptions = options.preemptions;
  how.most_runs = options.most_runs;
  const sim::Run run = sim::simulate(compiled.program, given, how);
  SimulationReport report;
  report.steps = run.steps;
  report.runs = run.runs;
  for (const auto& kernel : run.sites) report.waits += static_cast<int>(kernel.size());
  if (run.finding) {
    report.fault = fault_of(*run.finding, compiled);
    return report;
  }
  for (const auto& [name, tensor] : run.outputs) {
    const TensorView& view = arguments.tensors.at(name);
    const auto before = given.inputs.find(name);
    std::size_t n = 0;
    for_each_element(view, [&](std::byte* at) {
      const double value = tensor.values[n++];
      // What an update leaves keeps its bits, which a NaN has more of than its value says.
      const bool kept = before != given.inputs.end() && is_same_number(before->second.values[n - 1], value);
      if (!kept) runtime::store_element(view.dtype, at, value);
    });
  }
  return report;
}

}  // namespace astatide
