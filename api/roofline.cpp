#include "api/roofline.h"

#include "api/visible_inputs.h"
#include "compiler/cost/machine.h"
#include "compiler/explain.h"

namespace astatide {
namespace {

/// What the cost model and the algorithm say.
RooflinePoint counted(const Algorithm& algorithm, const NamedSchedule& named, const CompileOptions& options) {
  RooflinePoint out;
  out.schedule = named.name;
  try {
    const Explanation explanation = explain(algorithm, named.schedule, options);
    out.seconds = explanation.cost.seconds();
    out.flops = product_flops(explanation.statistics);
    out.bytes = explanation.cost.memory_bytes();
    for (const tile::TensorSize& tensor : explanation.statistics.tensors)
      if (tensor.role != tile::Tensor::Role::scratch) out.least_bytes += tensor.bytes;
  } catch (const UserError& error) {
    out.why_not = error.what();
  }
  return out;
}

}  // namespace

RooflineResult roofline(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                        const BenchOptions& options, const std::optional<Target>& predict_for) {
  const Target target = predict_for ? *predict_for : target_of(options.device);
  const cost::Machine& machine = cost::machine_of(target);
  RooflineResult out;
  out.measured = !predict_for;
  out.rate = machine.tensor_rate();
  out.bandwidth = machine.memory_rate;
  out.machine = machine.product;
  BenchResult measured;
  if (out.measured) {
    measured = bench(algorithm, schedules, options);
    out.machine = measured.device;
  }
  for (std::size_t shape = 0; shape < options.shapes.size(); ++shape) {
    const std::optional<double> visible = visible_work(algorithm, options.shapes[shape], options.seed).visible;
    for (std::size_t n = 0; n < schedules.size(); ++n) {
      RooflinePoint point = counted(algorithm, schedules[n], {target, options.shapes[shape], options.dtype});
      point.shape = shape;
      if (visible) point.flops = *visible;
      if (out.measured) {
        const BenchRow& row = measured.rows[shape * schedules.size() + n];
        point.seconds = row.median_ms / 1e3;
        if (!row.failure.empty()) point.why_not = row.message;
      }
      out.points.push_back(std::move(point));
    }
  }
  return out;
}

}  // namespace astatide
