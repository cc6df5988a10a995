#include "api/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/device_name.h"
#include "api/measure.h"
#include "api/measurer_process.h"
#include "api/paired.h"
#include "api/shapes.h"
#include "api/visible_inputs.h"
#include "compiler/explain.h"
#include "runtime/timing.h"

namespace astatide {
namespace {

void check_options(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                   const BenchOptions& options) {
  Diagnostics errors;
  if (schedules.empty()) errors.error({}, "no schedule is named to measure");
  if (options.shapes.empty()) errors.error({}, "no shape is named to measure at");
  if (options.rounds < 1 || options.rounds > 1000)
    errors.error({}, fmt::format("{} rounds are asked for, wanted are 1 to 1000", options.rounds));
  if (options.timeout_seconds && options.measurer.empty())
    errors.error({}, "a schedule has so many seconds only where a program is named that measures");
  if (options.timeout_seconds && !(*options.timeout_seconds > 0))
    errors.error({}, "a schedule needs more than 0 seconds");
  check_measurable(algorithm, options.device, options.shapes, "measured so",
                   "measure an algorithm without it, or `astatide run` with --input", errors);
  errors.throw_if_any();
}

/// Extents that are small enough for the evaluator and right for all of the schedules.
Extents common_check_extents(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                             const Extents& extents) {
  Extents out;
  for (const NamedSchedule& named : schedules) {
    std::vector<std::pair<std::string, std::int64_t>> tiles;
    for (const Placement& placement : named.schedule.placements)
      for (const auto& tile : placement.tile()) tiles.push_back(tile);
    try {
      for (const auto& [name, value] : small_extents(algorithm, named.schedule, extents, tiles))
        out[name] = std::max(out[name], value);
    } catch (const UserError&) {
      // What is wrong with a schedule its own build says.
    }
  }
  return out.empty() ? extents : out;
}

class Bench {
 public:
  Bench(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules, const BenchOptions& options)
      : algorithm_(algorithm), schedules_(schedules), options_(options), target_(target_of(options.device)) {
    if (options.measurer.empty()) {
      measure_ = [own = std::make_shared<Measurer>()](const MeasureJob& job) { return own->measure_together(job); };
    } else {
      measure_ = [process = std::make_shared<MeasurerProcess>(options.measurer),
                  seconds = options.timeout_seconds.value_or(kBenchTimeoutSeconds)](const MeasureJob& job) {
        return process->ask_together(job, seconds);
      };
    }
  }

  BenchResult run() {
    const DeviceName name = name_of_device(options_.device, options_.engine.threads);
    result_.device = name.name;
    result_.driver = name.driver;
    for (std::size_t shape = 0; shape < options_.shapes.size(); ++shape) {
      if (options_.progress) options_.progress(shape);
      run_shape(shape);
    }
    return std::move(result_);
  }

 private:
  void run_shape(std::size_t at) {
    BenchShape shape;
    shape.extents = options_.shapes[at];
    shape.check_extents = common_check_extents(algorithm_, schedules_, shape.extents);
    const VisibleWork work = visible_work(algorithm_, shape.extents, options_.seed);
    shape.flops = work.visible.value_or(0);
    shape.not_visible = work.why_not;
    MeasureJob job = measure_job(algorithm_, options_.device, options_.dtype, shape.extents, options_.engine);
    job.check_extents = shape.check_extents;
    job.seed = options_.seed;
    job.rounds = options_.rounds;
    for (const NamedSchedule& named : schedules_) job.together.push_back(print_schedule(named.schedule));
    const std::vector<MeasureAnswer> answers = measure_without_broken(std::move(job), measure_);
    for (std::size_t n = 0; n < schedules_.size(); ++n) {
      BenchRow row = row_of(answers[n], at, schedules_[n]);
      if (row.failure.empty()) {
        if (!shape.first) shape.first = result_.rows.size();
        const std::vector<double>& first =
            *shape.first == result_.rows.size() ? row.samples_ms : result_.rows[*shape.first].samples_ms;
        const PairedTimes paired = compare_paired(row.samples_ms, first);
        row.ratio = paired.ratio;
        row.confidence = paired.confidence;
        if (result_.method.empty()) result_.method = answers[n].method;
        count(shape, row, schedules_[n].schedule, work);
      }
      result_.rows.push_back(std::move(row));
    }
    result_.shapes.push_back(std::move(shape));
  }

  static BenchRow row_of(const MeasureAnswer& answer, std::size_t shape, const NamedSchedule& named) {
    BenchRow row;
    row.schedule = named.name;
    row.shape = shape;
    row.failure = answer.failure;
    row.message = answer.message;
    if (!answer.failure.empty()) return row;
    const runtime::Timing timing = runtime::summarize_samples(answer.samples_ms);
    row.median_ms = timing.median_ms;
    row.least_ms = timing.min_ms;
    row.samples_ms = answer.samples_ms;
    row.registers = answer.registers;
    row.spill_bytes = answer.spill_bytes;
    return row;
  }

  /// What the work is, and what the cost model says of it.
  void count(BenchShape& shape, BenchRow& row, const Schedule& schedule, const VisibleWork& work) const {
    Explanation explanation;
    try {
      explanation = explain(algorithm_, schedule, {target_, shape.extents, options_.dtype});
    } catch (const InternalError&) {
      return;  // a prediction that fails is no reason to lose what was measured
    }
    row.predicted_ms = 1e3 * explanation.cost.seconds();
    const double computed = (1 - explanation.skipped.value_or(0)) * work.all;
    if (!work.visible) shape.flops = shape.flops == 0 ? computed : std::min(shape.flops, computed);
    if (shape.bytes > 0) return;
    for (const tile::TensorSize& tensor : explanation.statistics.tensors)
      if (tensor.role != tile::Tensor::Role::scratch) shape.bytes += tensor.bytes;
  }

  const Algorithm& algorithm_;
  const std::vector<NamedSchedule>& schedules_;
  const BenchOptions& options_;
  const Target target_;
  std::function<MeasuredTogether(const MeasureJob&)> measure_;
  BenchResult result_;
};

}  // namespace

BenchResult bench(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                  const BenchOptions& options) {
  check_options(algorithm, schedules, options);
  return Bench(algorithm, schedules, options).run();
}

}  // namespace astatide
