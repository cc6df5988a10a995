#include "api/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/cpu_device.h"
#include "api/device_name.h"
#include "api/measure.h"
#include "api/paired.h"
#include "compiler/cuda/emit.h"
#include "compiler/explain.h"
#include "compiler/support/unified_diff.h"
#include "runtime/timing.h"

namespace astatide {
namespace {

using Section = ComparedValue::Section;

/// What comes of a schedule.
struct Side {
  Explanation explanation;
  std::string loops, source;
};

/// Its errors say which of the two is meant.
template <class Action>
auto of_schedule(const std::string& which, const NamedSchedule& schedule, const Action& action) {
  try {
    return action();
  } catch (const MachineError&) {
    throw;
  } catch (const UserError& error) {
    std::vector<Diagnostic> problems = error.diagnostics();
    for (Diagnostic& problem : problems)
      problem.message = fmt::format("the {} schedule, {}: {}", which, schedule.name, problem.message);
    throw UserError(std::move(problems));
  }
}

Side side_of(const Algorithm& algorithm, const Schedule& schedule, const CompareOptions& options) {
  const CompileOptions compiled{options.target, options.sizes, options.dtype};
  Side out;
  out.explanation = explain(algorithm, schedule, compiled);
  const tile::Program program =
      compile(algorithm, schedule, compiled, [&](std::string_view stage, const tile::Program& lowered) {
        if (stage == "lower") out.loops = tile::print(lowered);
      });
  if (options.source) out.source = options.target.is_cuda() ? cuda::emit(program).text : print_llvm(program);
  return out;
}

/// Rows in the order in which they come, the second side's into those of the first.
class Rows {
 public:
  void add(bool is_first, ComparedValue row, ComparedValue::Value value) {
    const auto same = [&](const ComparedValue& other) {
      return other.section == row.section && other.kernel == row.kernel && other.what == row.what;
    };
    auto found = std::find_if(rows_.begin(), rows_.end(), same);
    if (found == rows_.end()) found = rows_.insert(place_of(row), std::move(row));
    (is_first ? found->first : found->second) = std::move(value);
  }
  std::vector<ComparedValue> take() { return std::move(rows_); }

 private:
  /// Behind the last row of its section and kernel, else of its section.
  std::vector<ComparedValue>::iterator place_of(const ComparedValue& row) {
    auto place = rows_.end();
    for (auto other = rows_.begin(); other != rows_.end(); ++other)
      if (other->section == row.section &&
          (place == rows_.end() || other->kernel == row.kernel || place[-1].kernel != row.kernel))
        place = other + 1;
    return place;
  }
  std::vector<ComparedValue> rows_;
};

/// "3 x [j:128, d:64] bf16 in shared memory"
std::string tile_text(const BufferUse& buffer, const Target& target) {
  std::vector<std::string> dims;
  for (const tile::Dim& dim : buffer.dims) dims.push_back(fmt::format("{}:{}", dim.axis, dim.extent));
  const char* place = buffer.space == Space::register_file ? (target.is_cuda() ? "registers" : "memory of a core")
                      : target.is_cuda()                   ? "shared memory"
                                                           : "workspace of a core";
  return fmt::format("{}[{}] {} in {}{}", buffer.ring > 1 ? fmt::format("{} x ", buffer.ring) : "", join(dims),
                     name_of(buffer.type), place, buffer.alias.empty() ? "" : " of " + buffer.alias);
}

void add_kernel(Rows& rows, bool is_first, const KernelUse& kernel, const cost::KernelCost& cost,
                const Target& target) {
  const tile::KernelStatistics& counted = kernel.statistics;
  const auto add = [&](Section section, std::string what, std::string unit, ComparedValue::Value value) {
    rows.add(is_first, {section, counted.name, std::move(what), std::move(unit), {}, {}}, std::move(value));
  };
  add(Section::storage, target.is_cuda() ? "blocks" : "tiles", "", counted.tiles);
  if (target.is_cuda()) {
    add(Section::storage, "threads", "", static_cast<double>(kernel.threads));
    add(Section::storage, "registers a thread", "", static_cast<double>(cost.registers.asked));
    add(Section::storage, "registers spilled", "", static_cast<double>(cost.registers.spilled));
    add(Section::storage, "blocks an SM", "", static_cast<double>(cost.occupancy.blocks));
    add(Section::storage, "limited by", "", cost.occupancy.limited_by);
    add(Section::storage, "waves", "", cost.waves);
  }
  add(Section::storage, target.is_cuda() ? "shared memory" : "workspace", "bytes",
      static_cast<double>(counted.shared_bytes));
  for (const BufferUse& buffer : kernel.buffers)
    add(Section::storage, "tile " + buffer.name, "", tile_text(buffer, target));
  double read = 0, written = 0;
  for (const auto& [tensor, traffic] : cost.memory) read += traffic.read, written += traffic.written;
  add(Section::traffic, "memory read", "bytes", read);
  add(Section::traffic, "memory written", "bytes", written);
  add(Section::traffic, "L2", "bytes", cost.l2_bytes);
  add(Section::traffic, target.is_cuda() ? "shared memory" : "workspace", "bytes", cost.shared_bytes);
  add(Section::work, "products", "operations", counted.product_flops);
  add(Section::work, "elements", "operations", counted.element_flops);
  add(Section::work, "special functions", "operations", counted.transcendentals);
  add(Section::time, "predicted", "s", cost.seconds);
  add(Section::time, "binds", "", cost.binds);
}

void add_side(Rows& rows, bool is_first, const Explanation& side) {
  for (std::size_t n = 0; n < side.kernels.size(); ++n)
    add_kernel(rows, is_first, side.kernels[n], side.cost.kernels[n], side.target);
  const auto total = [&](Section section, std::string what, std::string unit, double value) {
    rows.add(is_first, {section, "", std::move(what), std::move(unit), {}, {}}, value);
  };
  total(Section::storage, "kernels", "", static_cast<double>(side.kernels.size()));
  total(Section::storage, "scratch", "bytes", side.statistics.scratch_bytes());
  total(Section::traffic, "memory", "bytes", side.cost.memory_bytes());
  total(Section::work, "operations", "operations", side.statistics.flops());
  total(Section::time, "predicted", "s", side.cost.seconds());
}

MeasuredDifference measure(const Algorithm& algorithm, const Schedule& first, const Schedule& second,
                           const CompareOptions& options) {
  MeasuredDifference out;
  out.device = name_of_device(*options.measure_on, options.engine.threads).name;
  std::map<std::string, std::int64_t> largest;
  for (const Schedule* schedule : {&first, &second})
    for (const Placement& placement : schedule->placements)
      for (const auto& [axis, size] : placement.tile()) largest[axis] = std::max(largest[axis], size);
  MeasureJob job = measure_job(algorithm, *options.measure_on, options.dtype, options.sizes, options.engine);
  job.check_extents = small_extents(algorithm, first, options.sizes, {largest.begin(), largest.end()});
  job.seed = options.seed;
  Measurer measurer;
  const auto failure_of = [](const MeasureAnswer& answer) {
    return answer.failure.empty() ? "" : answer.failure + ": " + answer.message;
  };
  // The one that a candidate is compared to is not checked, so it is a candidate once.
  job.schedule = print_schedule(second);
  job.rounds = 0;
  out.second_failure = failure_of(measurer.measure(job));
  job.schedule = print_schedule(first);
  if (out.second_failure.empty()) job.against = print_schedule(second);
  job.rounds = out.second_failure.empty() ? options.rounds : 0;
  const MeasureAnswer answer = measurer.measure(job);
  out.first_failure = failure_of(answer);
  if (!out.first_failure.empty() || !out.second_failure.empty()) return out;
  out.method = answer.method;
  out.first_ms = runtime::summarize_samples(answer.samples_ms).median_ms;
  out.second_ms = runtime::summarize_samples(answer.against_ms).median_ms;
  const PairedTimes paired = compare_paired(answer.samples_ms, answer.against_ms);
  out.ratio = paired.ratio;
  out.first_is_faster = paired.confidence;
  out.second_is_faster = compare_paired(answer.against_ms, answer.samples_ms).confidence;
  return out;
}

}  // namespace

std::string_view name_of(ComparedValue::Section section) {
  switch (section) {
    case Section::storage:
      return "storage";
    case Section::traffic:
      return "traffic";
    case Section::work:
      return "work";
    case Section::time:
      return "time";
  }
  throw InternalError("a section without a name");
}

std::vector<DirectiveDifference> differing_directives(const Schedule& first, const Schedule& second) {
  std::vector<DirectiveDifference> out;
  const auto place_of = [](const PrintedDirective& one) {
    return (one.owner.empty() ? "" : one.owner + ".") + one.key;
  };
  for (const PrintedDirective& one : print_directives(first)) out.push_back({place_of(one), one.value, ""});
  for (const PrintedDirective& one : print_directives(second)) {
    const std::string place = place_of(one);
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& other) { return other.place == place; });
    if (same == out.end()) {
      out.push_back({place, "", one.value});
    } else {
      same->second = one.value;
    }
  }
  std::erase_if(out, [](const DirectiveDifference& one) { return one.first == one.second; });
  return out;
}

ScheduleDifference compare_schedules(const Algorithm& algorithm, const NamedSchedule& first,
                                     const NamedSchedule& second, const CompareOptions& options) {
  if (options.rounds < 1) throw UserError(fmt::format("{} rounds to measure, wanted is 1 or more", options.rounds));
  ScheduleDifference out;
  out.directives = differing_directives(first.schedule, second.schedule);
  const Side one = of_schedule("first", first, [&] { return side_of(algorithm, first.schedule, options); });
  const Side other = of_schedule("second", second, [&] { return side_of(algorithm, second.schedule, options); });
  Rows rows;
  add_side(rows, true, one.explanation);
  add_side(rows, false, other.explanation);
  out.values = rows.take();
  out.loops = unified_diff(one.loops, other.loops, first.name, second.name);
  out.source = unified_diff(one.source, other.source, first.name, second.name);
  if (options.measure_on) out.measured = measure(algorithm, first.schedule, second.schedule, options);
  return out;
}

}  // namespace astatide
