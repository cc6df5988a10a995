#include "api/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "api/available_memory.h"
#include "api/check_outputs.h"
#include "api/measure_stage.h"
#include "api/random_tensors.h"
#include "api/shapes.h"
#include "runtime/nvrtc.h"
#include "runtime/timing.h"

namespace astatide {
namespace {

/// A sample takes as long as this at least, so that neither clock nor launch is what is measured.
constexpr double kSampleMs = 1.5;
constexpr int kMostLaunches = 64;
constexpr std::int64_t kMostCopies = 16;
/// Elements of the whole outputs that are looked at.
constexpr std::int64_t kMostLookedAt = std::int64_t{1} << 22;
/// Of the evaluator on the small problem.
constexpr double kCheckSeconds = 4;

MeasureAnswer failed(std::string failure, std::string message) {
  MeasureAnswer answer;
  answer.failure = std::move(failure);
  answer.message = std::move(message);
  return answer;
}

/// Why outputs are wrong; empty where they are right.
std::string why_wrong(const std::vector<OutputCheck>& checks) {
  for (const OutputCheck& check : checks) {
    if (check.wrong_nonfinite > 0)
      return fmt::format("{}: {} elements are infinite, NaN or not written where they should not be, or the reverse",
                         check.name, check.wrong_nonfinite);
    if (!check.ok())
      return fmt::format("{}: error {:.3g} of at most {:.3g}", check.name, check.max_abs_error, check.limit);
  }
  return "";
}

/// Elements that are NaN, which outputs hold before a launch and none may hold after it.
std::string why_unwritten(const std::string& name, const runtime::HostTensor& tensor) {
  const std::int64_t count = tensor.element_count(), size = size_in_bytes(tensor.dtype);
  // An odd step meets all places of tiles.
  const std::int64_t step = count <= kMostLookedAt ? 1 : (count / kMostLookedAt) | 1;
  for (std::int64_t n = 0; n < count; n += step)
    if (std::isnan(runtime::load_element(tensor.dtype, tensor.origin() + n * size)))
      return fmt::format("{}: element {} of {} is NaN or was not written", name, n, count);
  return "";
}

/// Why outputs are not those of another schedule, as far as both may round: each is off by the contract's limit at
/// most, of the largest number. Looks at as many elements as why_unwritten.
std::string why_other(const HostTensors& outputs, const HostTensors& first, double limit) {
  for (const auto& [name, tensor] : outputs) {
    const runtime::HostTensor& expected = first.at(name);
    const std::int64_t count = tensor.element_count(), size = size_in_bytes(tensor.dtype);
    const std::int64_t step = count <= kMostLookedAt ? 1 : (count / kMostLookedAt) | 1;
    double largest = 0, error = 0;
    std::int64_t at = 0;
    for (std::int64_t n = 0; n < count; n += step) {
      const double a = runtime::load_element(tensor.dtype, tensor.origin() + n * size);
      const double b = runtime::load_element(expected.dtype, expected.origin() + n * size);
      if (a == b) continue;  // infinities too
      if (!std::isfinite(a) || !std::isfinite(b))
        return fmt::format("{}: element {} is {} and with the first schedule {}", name, n, a, b);
      largest = std::max(largest, std::abs(b));
      if (std::abs(a - b) > error) error = std::abs(a - b), at = n;
    }
    if (error > 2 * limit * largest)
      return fmt::format("{}: element {} differs by {:.3g} from the first schedule's, {:.3g} may be", name, at, error,
                         2 * limit * largest);
  }
  return "";
}

/// Extents that belong together: those of an index that maps one onto the other.
class ExtentGroups {
 public:
  explicit ExtentGroups(const Algorithm& algorithm) {
    for (const AxisGroup& group : find_axis_groups(algorithm)) {
      std::set<std::string> names = free_variables(group.from);
      names.merge(free_variables(group.onto));
      if (names.empty()) continue;
      for (const std::string& name : names) join(name, *names.begin());
    }
  }
  std::string root_of(const std::string& name) const {
    const auto found = parent_.find(name);
    return found == parent_.end() || found->second == name ? name : root_of(found->second);
  }

 private:
  void join(const std::string& a, const std::string& b) {
    const std::string of_a = root_of(a), of_b = root_of(b);
    parent_[of_a] = of_b;
    parent_.try_emplace(of_b, of_b);
  }
  std::map<std::string, std::string> parent_;
};

}  // namespace

std::map<std::string, std::int64_t> small_extents(const Algorithm& algorithm, const Schedule& schedule,
                                                  const std::map<std::string, std::int64_t>& extents,
                                                  const std::vector<std::pair<std::string, std::int64_t>>& tiles) {
  Diagnostics errors;
  const std::map<std::string, Expr> axes = infer_axis_extents(algorithm, errors);
  errors.throw_if_any();
  std::map<std::string, std::int64_t> largest;  // tile of the extents of an axis
  const auto cover = [&](const std::string& axis, std::int64_t tile) {
    if (const auto extent = axes.find(axis); extent != axes.end())
      for (const std::string& name : free_variables(extent->second)) largest[name] = std::max(largest[name], tile);
  };
  for (const auto& [axis, tile] : tiles) {
    cover(axis, tile);
    for (const Placement& placement : schedule.placements)
      for (const auto& [fused, parts] : placement.fuse())
        if (fused == axis)
          for (const std::string& part : parts) cover(part, tile);
  }
  std::set<std::string> of_axes;
  for (const auto& [axis, extent] : axes)
    for (const std::string& name : free_variables(extent)) of_axes.insert(name);
  const std::map<std::string, std::int64_t> whole = known_extents(algorithm, schedule, extents);
  std::map<std::string, std::int64_t> small = extents;
  const ExtentGroups groups(algorithm);
  std::map<std::string, std::int64_t> common;
  // An axis that others divide brings those along: groups keep their ratio.
  std::set<std::string> roots;
  for (const std::string& name : of_axes) roots.insert(groups.root_of(name));
  for (const auto& [name, value] : extents)
    if (roots.contains(groups.root_of(name))) of_axes.insert(name);
  for (const auto& [name, value] : extents)
    if (of_axes.contains(name)) common[groups.root_of(name)] = std::gcd(common[groups.root_of(name)], value);
  const auto shrink = [&](std::int64_t rest) {
    for (auto& [name, value] : small) {
      const std::int64_t full = extents.at(name);
      if (whole.contains(name)) continue;
      if (largest.contains(name)) {
        value = std::min(full, std::max<std::int64_t>(2 * largest[name] / rest, 1) + 3);
      } else if (of_axes.contains(name)) {
        const std::int64_t divisor = std::max<std::int64_t>(common[groups.root_of(name)], 1);
        value = full / divisor * std::min<std::int64_t>(divisor, rest == 1 ? 2 : 1);
      }
    }
  };
  for (std::int64_t rest = 1; rest <= 16; rest *= 2) {
    shrink(rest);
    if (estimate_check_seconds(algorithm, small) <= kCheckSeconds) break;
  }
  return small;
}

struct Measurer::State {
  explicit State(LaunchCandidate launch_) : launch(std::move(launch_)) {
    if (!launch)
      launch = [](const Executable& executable, const LaunchArguments& arguments) { executable.launch(arguments); };
  }

  /// What candidates of one search share.
  struct Problem {
    std::string key;
    Algorithm algorithm;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<MeasureStage> stage;
    HostTensors small_inputs;
    std::map<std::pair<bool, bool>, std::unique_ptr<OutputOracle>> oracles;  // tf32, functions that are approximated
    std::vector<LaunchArguments> arguments;  // of all extents, each with inputs of its own
  };

  Problem& problem_of(const MeasureJob& job);
  std::string check_small(Problem& problem, const MeasureJob& job, const Schedule& schedule,
                          const Executable& executable);
  /// Leaves what was computed in `outputs`.
  std::string check_whole(Problem& problem, const MeasureJob& job, const Executable& executable, HostTensors& outputs);
  /// Builds and checks a candidate; `executable` is set where it is right, or it says why it is not.
  /// `begins` is told before each of its steps.
  MeasureAnswer checked(Problem& problem, const MeasureJob& job, const std::string& schedule,
                        std::optional<Executable>& executable, HostTensors& outputs,
                        const std::function<void()>& begins);
  void place_inputs(Problem& problem, const MeasureJob& job, const Executable& executable);
  double sample(Problem& problem, const Executable& executable, int launches);
  LaunchArguments on_device(Problem& problem, const std::map<std::string, std::int64_t>& extents) const;

  LaunchCandidate launch;
  std::optional<Problem> problem;
};

Measurer::Measurer(LaunchCandidate launch) : state_(std::make_unique<State>(std::move(launch))) {}
Measurer::~Measurer() = default;

Measurer::State::Problem& Measurer::State::problem_of(const MeasureJob& job) {
  MeasureJob alike = job;
  alike.schedule.clear(), alike.against.clear(), alike.together.clear();
  alike.rounds = 0;
  const std::string key = to_line(alike);
  if (problem && problem->key == key) return *problem;
  problem.reset();
  problem.emplace();
  problem->key = key;
  problem->algorithm = parse_algorithm(job.algorithm, "algorithm");
  EngineOptions options;
  options.cache_directory = job.cache_directory;
  options.threads = job.threads;
  problem->engine = std::make_unique<Engine>(options);
  problem->stage = make_measure_stage(job.device);
  return *problem;
}

LaunchArguments Measurer::State::on_device(Problem& own, const std::map<std::string, std::int64_t>& extents) const {
  LaunchArguments arguments;
  arguments.extents = extents;
  arguments.stream = own.stage->stream();
  return arguments;
}

std::string Measurer::State::check_small(Problem& own, const MeasureJob& job, const Schedule& schedule,
                                         const Executable& executable) {
  if (own.small_inputs.empty())
    for (const Input& input : own.algorithm.inputs)
      own.small_inputs.emplace(input.name, random_tensor(executable, input.name, job.check_extents, job.seed));
  const Allowance allowance = allowance_of(schedule, job.device);
  std::unique_ptr<OutputOracle>& oracle = own.oracles[{allowance.tf32, !allowance.functions.empty()}];
  if (!oracle)
    oracle = std::make_unique<OutputOracle>(own.algorithm, job.check_extents, std::map<std::string, double>{},
                                            own.small_inputs, allowance);
  HostTensors outputs = prepare_outputs(executable, job.check_extents);
  outputs.merge(prepare_updated(own.algorithm, own.small_inputs));
  LaunchArguments arguments = on_device(own, job.check_extents);
  std::vector<void*> placed;
  for (const HostTensors* tensors : {&std::as_const(own.small_inputs), &std::as_const(outputs)})
    for (const auto& [name, tensor] : *tensors) {
      TensorView view = view_of(tensor);
      placed.push_back(view.data = own.stage->place(tensor));
      arguments.tensors[name] = view;
    }
  launch(executable, arguments);
  for (auto& [name, tensor] : outputs) own.stage->fetch(arguments.tensors[name].data, tensor);
  for (void* const data : placed) own.stage->release(data);
  return why_wrong(oracle->check(outputs));
}

void Measurer::State::place_inputs(Problem& own, const MeasureJob& job, const Executable& executable) {
  if (!own.arguments.empty()) return;
  std::int64_t bytes = 0;
  HostTensors inputs;
  for (const Input& input : own.algorithm.inputs) {
    const auto& tensor =
        inputs.emplace(input.name, random_tensor(executable, input.name, job.extents, job.seed)).first->second;
    bytes += static_cast<std::int64_t>(tensor.data->size());
  }
  const std::int64_t rotated = own.stage->rotated_bytes();
  const std::int64_t copies =
      rotated == 0 ? 1 : std::clamp<std::int64_t>(rotated / std::max<std::int64_t>(bytes, 1) + 1, 1, kMostCopies);
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    LaunchArguments arguments = on_device(own, job.extents);
    for (const auto& [name, tensor] : inputs) {
      TensorView view = view_of(tensor);
      view.data = own.stage->place(tensor);
      arguments.tensors[name] = view;
    }
    own.arguments.push_back(std::move(arguments));
  }
}

std::string Measurer::State::check_whole(Problem& own, const MeasureJob& job, const Executable& executable,
                                         HostTensors& outputs) {
  // Where the host's memory is the device's, a kernel's scratch may be what does not fit.
  if (job.device.kind == Device::Kind::cpu)
    require_memory(executable.workspace_bytes(job.extents), "tensors between the kernels");
  place_inputs(own, job, executable);
  // Outputs of this candidate alone: what another has written is no answer of it.
  outputs = prepare_outputs(executable, job.extents);
  for (const auto& [name, tensor] : outputs) {
    TensorView view = view_of(tensor);
    view.data = own.stage->place(tensor);
    for (LaunchArguments& arguments : own.arguments) {
      if (&arguments == &own.arguments.front() && arguments.tensors.contains(name))
        own.stage->release(arguments.tensors[name].data);
      arguments.tensors[name] = view;
    }
  }
  launch(executable, own.arguments.front());
  std::string wrong;
  for (auto& [name, tensor] : outputs) {
    own.stage->fetch(own.arguments.front().tensors[name].data, tensor);
    if (wrong.empty()) wrong = why_unwritten(name, tensor);
  }
  return wrong;
}

double Measurer::State::sample(Problem& own, const Executable& executable, int launches) {
  const double ms = own.stage->time_ms([&] {
    for (int n = 0; n < launches; ++n)
      launch(executable, own.arguments[static_cast<std::size_t>(n) % own.arguments.size()]);
  });
  return ms / launches;
}

MeasureAnswer Measurer::State::checked(Problem& own, const MeasureJob& job, const std::string& text,
                                       std::optional<Executable>& executable, HostTensors& outputs,
                                       const std::function<void()>& begins) {
  MeasureAnswer answer;
  try {
    begins();
    const Schedule schedule = parse_schedule(text, "candidate");
    Executable built = own.engine->build(own.algorithm, schedule, {job.device, job.dtype, job.extents, {}});
    const std::string& log = built.report().log;
    if (!log.empty())
      for (const runtime::KernelResources& kernel : runtime::parse_ptxas_report(log)) {
        answer.registers = std::max(answer.registers, kernel.registers);
        answer.spill_bytes = std::max(answer.spill_bytes, kernel.spill_store_bytes + kernel.spill_load_bytes);
        answer.shared_bytes = std::max(answer.shared_bytes, kernel.shared_bytes);
      }
    begins();
    if (const std::string wrong = check_small(own, job, schedule, built); !wrong.empty()) return failed("wrong", wrong);
    begins();
    if (const std::string wrong = check_whole(own, job, built, outputs); !wrong.empty()) return failed("wrong", wrong);
    executable = std::move(built);
  } catch (const UserError& error) {
    return failed("refused", error.what());
  } catch (const InternalError& error) {
    return failed("crash", error.what());
  }
  answer.method = own.stage->method();
  return answer;
}

namespace {

/// So many that a sample takes long enough.
int launches_of(double once_ms) {
  return std::clamp(static_cast<int>(std::ceil(kSampleMs / std::max(once_ms, 1e-4))), 1, kMostLaunches);
}

}  // namespace

MeasureAnswer Measurer::measure(const MeasureJob& job) {
  State::Problem& own = state_->problem_of(job);
  std::optional<Executable> executable, against;
  HostTensors outputs;
  MeasureAnswer answer = state_->checked(own, job, job.schedule, executable, outputs, [] {});
  if (!executable) return answer;
  try {
    if (!job.against.empty())
      against = own.engine->build(own.algorithm, parse_schedule(job.against, "incumbent"),
                                  {job.device, job.dtype, job.extents, {}});
  } catch (const UserError& error) {
    return failed("refused", error.what());
  } catch (const InternalError& error) {
    return failed("crash", error.what());
  }

  const int launches = launches_of(state_->sample(own, *executable, 1));
  if (against) state_->sample(own, *against, 1);
  for (int round = 0; round < job.rounds; ++round) {
    // Each goes first in every second round.
    const auto first = [&] { answer.samples_ms.push_back(state_->sample(own, *executable, launches)); };
    const auto second = [&] {
      if (against) answer.against_ms.push_back(state_->sample(own, *against, launches));
    };
    if (round % 2 == 0) {
      first(), second();
    } else {
      second(), first();
    }
  }
  return answer;
}

MeasuredTogether Measurer::measure_together(const MeasureJob& job, const std::function<void(MeasureTurn)>& begins) {
  State::Problem& own = state_->problem_of(job);
  const std::size_t count = job.together.size();
  std::vector<MeasureAnswer> answers(count);
  std::vector<std::optional<Executable>> executables(count);
  const auto turn_of = [&](std::size_t n) {
    return [&begins, n] {
      if (begins) begins({n});
    };
  };
  // What is left of the device's state is not to be trusted.
  const auto broken_by = [&](std::size_t n, MeasureAnswer answer) {
    executables.clear();
    state_->problem.reset();
    return MeasuredTogether{{std::move(answer)}, n};
  };
  HostTensors first;
  Allowance loosest;
  for (std::size_t n = 0; n < count; ++n) {
    HostTensors outputs;
    answers[n] = state_->checked(own, job, job.together[n], executables[n], outputs, turn_of(n));
    if (answers[n].failure == "crash") return broken_by(n, std::move(answers[n]));
    if (!executables[n]) continue;
    const Allowance allowance = allowance_of(parse_schedule(job.together[n], "candidate"), job.device);
    if (first.empty()) {
      first = std::move(outputs);
      loosest = allowance;
      continue;
    }
    const double limit = std::max(absolute_limit(job.dtype, allowance), absolute_limit(job.dtype, loosest));
    if (const std::string wrong = why_other(outputs, first, limit); !wrong.empty()) {
      answers[n] = failed("wrong", wrong);
      executables[n].reset();
    }
  }

  struct Runner {
    std::size_t of;
    int launches;
  };
  std::vector<Runner> order;
  std::size_t turn = 0;
  const auto sample = [&](std::size_t n, int launches) {
    turn = n;
    turn_of(n)();
    return state_->sample(own, *executables[n], launches);
  };
  try {
    for (std::size_t n = 0; n < count; ++n) {
      if (!executables[n]) continue;
      // Scratch of all at once may be more than the device has.
      try {
        order.push_back({n, launches_of(sample(n, 1))});
      } catch (const UserError& error) {
        answers[n] = failed("refused", error.what());
      }
    }
    std::mt19937_64 lot(job.seed);
    for (int round = 0; round < job.rounds; ++round) {
      // Not std::shuffle, whose order every library chooses for itself.
      for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[lot() % n]);
      for (const Runner& runner : order) answers[runner.of].samples_ms.push_back(sample(runner.of, runner.launches));
    }
  } catch (const InternalError& error) {
    return broken_by(turn, failed("crash", error.what()));
  }
  return {std::move(answers), {}};
}

std::vector<MeasureAnswer> measure_without_broken(MeasureJob job,
                                                  const std::function<MeasuredTogether(const MeasureJob&)>& measure) {
  const std::vector<std::string> all = std::move(job.together);
  std::vector<MeasureAnswer> answers(all.size());
  std::vector<std::size_t> left(all.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  while (!left.empty()) {
    job.together.clear();
    for (const std::size_t n : left) job.together.push_back(all[n]);
    MeasuredTogether measured = measure(job);
    if (measured.broken) {
      answers[left.at(*measured.broken)] = std::move(measured.answers.at(0));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(*measured.broken));
      continue;
    }
    for (std::size_t n = 0; n < left.size(); ++n) answers[left[n]] = std::move(measured.answers.at(n));
    break;
  }
  return answers;
}

}  // namespace astatide
