#include "api/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "api/clock.h"
#include "api/device_name.h"
#include "api/measurer_process.h"
#include "api/paired.h"
#include "api/tune_journal.h"
#include "astatide/version.h"
#include "runtime/sha256.h"
#include "runtime/thread_pool.h"
#include "runtime/timing.h"

namespace astatide {
namespace {

/// Points that are proposed and compiled together. Always as many, so that a search is the same on every machine.
constexpr std::size_t kBatch = 8;
/// The last run of winner and runner-up has so many times the rounds.
constexpr int kLastRounds = 3;

/// Before anything is started or written.
void check_options(const Algorithm& algorithm, const ScheduleSpace& space, const TuneOptions& options) {
  Diagnostics errors;
  if (options.measurer.empty()) errors.error({}, "no program is named that measures candidates");
  if (options.rounds < 5 || options.rounds > 1000)
    errors.error({}, fmt::format("{} rounds can't show what is faster, wanted are 5 to 1000", options.rounds));
  if (!(options.timeout_seconds > 0)) errors.error({}, "a candidate needs more than 0 seconds");
  check_measurable(algorithm, options.device, {options.sizes}, "tuned",
                   "tune an algorithm without it, and name the schedule that is found", errors);
  errors.throw_if_any();
  const Schedule any = space.schedule_at(SpacePoint(space.axes().size(), 0));
  const Target* least = find_target(any.target);
  const Target target = target_of(options.device);
  if (least != nullptr && !least->is_cuda() && target.is_cuda())
    throw UserError({space.file(), 0, 0, ""}, fmt::format("the space is for the CPU, the device is {}", target.name));
}

class Tuner {
 public:
  Tuner(const Algorithm& algorithm, const ScheduleSpace& space, const TuneOptions& options)
      : algorithm_(algorithm),
        space_(space),
        options_(options),
        target_(target_of(options.device)),
        pool_(options.threads),
        engine_(options.engine),
        measurer_(options.measurer),
        journal_(options.journal, key(), options.resume),
        search_(space, options.search, options.seed, [this](const auto& points) { return ask(points); }) {}

  TuneResult run() {
    while (!is_over()) {
      const std::vector<SpacePoint> batch = search_.next(std::min(kBatch, left()));
      if (batch.empty()) break;
      measure(batch);
    }
    if (!best_) throw_nothing_found();
    result_.winner = *best_;
    compare_with_runner_up();
    result_.best = space_.schedule_at(result_.points[result_.winner].point);
    result_.counts = search_.counts();
    result_.reasons = search_.reasons();
    result_.seconds = seconds();
    const DeviceName name = name_of_device(options_.device, options_.engine.threads);
    result_.device = name.name;
    result_.driver = name.driver;
    for (const std::string& warning : journal_.warnings()) result_.warnings.push_back(warning);
    for (std::string& warning : engine_.take_warnings()) result_.warnings.push_back(std::move(warning));
    if (!result_.interrupted) journal_.end();
    return std::move(result_);
  }

 private:
  JournalKey key() const {
    std::string sizes;
    for (const auto& [name, value] : options_.sizes)
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ",", name, value);
    return {{"algorithm", runtime::sha256_hex(print_algorithm(algorithm_))},
            {"space", runtime::sha256_hex(space_.text())},
            {"device", name_of_device(options_.device, options_.engine.threads).name},
            {"dtype", std::string(name_of(options_.dtype))},
            {"shape", sizes},
            {"search", std::string(name_of(options_.search))},
            {"seed", std::to_string(options_.seed)},
            {"rounds", std::to_string(options_.rounds)},
            {"version", ASTATIDE_VERSION}};
  }

  double seconds() const { return milliseconds_since(start_) / 1e3; }
  bool wants_stop() const { return options_.stop && options_.stop(); }
  std::size_t left() const {
    return options_.points == 0 ? SIZE_MAX : options_.points - std::min(options_.points, result_.points.size());
  }
  bool is_over() {
    result_.interrupted = result_.interrupted || wants_stop();
    return result_.interrupted || left() == 0 || (options_.seconds > 0 && seconds() >= options_.seconds);
  }

  std::vector<SearchAnswer> ask(const std::vector<SpacePoint>& points) {
    std::vector<SearchAnswer> answers(points.size());
    const CompileOptions compiling{target_, options_.sizes, options_.dtype};
    pool_.for_each_range(static_cast<std::int64_t>(points.size()), 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (auto n = static_cast<std::size_t>(begin); n < static_cast<std::size_t>(end); ++n) {
        // Whoever ends a search that is asked for much does not wait for all answers.
        if (wants_stop()) {
          answers[n].why_not = "interrupted";
          continue;
        }
        try {
          answers[n] = ask_schedule(algorithm_, space_.schedule_at(points[n]), compiling, options_.predict);
        } catch (const MachineError&) {
          throw;
        } catch (const UserError& error) {
          answers[n].why_not = error.diagnostics().front().message;
        }
      }
    });
    return answers;
  }

  /// Compiles into the cache, from where the process that measures takes it. What it throws is what is wrong with it.
  std::string compile_ahead(const SpacePoint& point) {
    PrepareOptions how;
    how.threads = 1;
    // A kernel for a GPU needs no device to be compiled; this process keeps away from it.
    if (target_.is_cuda()) {
      how.target = target_.name;
    } else {
      how.device = options_.device;
    }
    try {
      engine_.prepare(algorithm_,
                      {{options_.sizes, options_.dtype, NamedSchedule{"candidate", space_.schedule_at(point)}}}, how);
      return "";
    } catch (const MachineError&) {
      throw;
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  void measure(const std::vector<SpacePoint>& batch) {
    // Each is measured as soon as it is compiled; on the CPU when all are: compiling would take the cores that count.
    std::vector<std::future<std::string>> compiled(batch.size());
    std::vector<std::promise<std::string>> promises(batch.size());
    for (std::size_t n = 0; n < batch.size(); ++n) compiled[n] = promises[n].get_future();
    std::future<void> compiling = std::async(std::launch::async, [&] {
      pool_.for_each_range(static_cast<std::int64_t>(batch.size()), 1, [&](int, std::int64_t begin, std::int64_t end) {
        for (auto n = static_cast<std::size_t>(begin); n < static_cast<std::size_t>(end); ++n) try {
            const bool known = journal_.known().contains(space_.describe(batch[n]));
            promises[n].set_value(known || wants_stop() ? "" : compile_ahead(batch[n]));
          } catch (...) {
            promises[n].set_exception(std::current_exception());
          }
      });
    });
    if (!target_.is_cuda()) compiling.wait();
    for (std::size_t n = 0; n < batch.size() && !is_over(); ++n) {
      TunedPoint point = measured(batch[n], compiled[n]);
      if (point.failure == "stopped") {
        result_.interrupted = true;
        break;
      }
      if (!point.resumed) journal_.add(point);
      take(std::move(point));
    }
  }

  TunedPoint measured(const SpacePoint& at, std::future<std::string>& compiled) {
    TunedPoint point;
    point.point = at;
    point.what = space_.describe(at);
    if (const auto known = journal_.known().find(point.what); known != journal_.known().end()) {
      point = known->second;
      point.point = at;
      return point;
    }
    point.predicted = search_.predicted(at);
    if (const std::string wrong = compiled.get(); !wrong.empty()) {
      point.failure = "refused";
      point.message = wrong;
      return point;
    }
    const std::string against = best_ ? text_at(result_.points[*best_].point) : "";
    const MeasureAnswer answer =
        measurer_.ask(job(text_at(at), against, options_.rounds), options_.timeout_seconds, options_.stop);
    point.failure = answer.failure;
    point.message = answer.message;
    point.registers = answer.registers;
    point.spill_bytes = answer.spill_bytes;
    point.shared_bytes = answer.shared_bytes;
    if (!answer.failure.empty()) return point;
    if (answer.samples_ms.empty() || (best_ && answer.against_ms.size() != answer.samples_ms.size())) {
      point.failure = "crash";
      point.message = "the process that measured it gave no times";
      return point;
    }
    const runtime::Timing timing = runtime::summarize_samples(answer.samples_ms);
    point.median_ms = timing.median_ms;
    point.least_ms = timing.min_ms;
    point.most_ms = *std::max_element(answer.samples_ms.begin(), answer.samples_ms.end());
    if (best_) {
      const PairedTimes paired = compare_paired(answer.samples_ms, answer.against_ms);
      point.ratio = paired.ratio;
      point.confidence = paired.confidence;
    }
    // Times that can't be told apart leave the earlier one where it is.
    point.better = !best_ || (point.ratio < 1 && point.confidence >= kSureEnough);
    if (result_.method.empty()) result_.method = answer.method;
    return point;
  }

  /// Adds what became of a point.
  void take(TunedPoint point) {
    const bool ok = point.failure.empty();
    // Relative to the best, whose machine may be slower now than it was: its own time counts.
    const double ms = !ok ? 0 : best_ ? point.ratio * estimates_[*best_] : point.median_ms;
    estimates_.push_back(ms);
    search_.tell(point.point, ok ? std::optional(ms / 1e3) : std::nullopt);
    failed_ += ok ? 0 : 1;
    if (ok && point.better) best_ = result_.points.size();
    result_.points.push_back(std::move(point));
    report();
  }

  void report() {
    if (!options_.progress) return;
    TuneProgress progress;
    progress.measured = result_.points.size();
    progress.failed = failed_;
    progress.most = options_.points;
    progress.seconds = seconds();
    progress.last = &result_.points.back();
    progress.best = best_ ? &result_.points[*best_] : nullptr;
    options_.progress(progress);
  }

  void compare_with_runner_up() {
    for (std::size_t n = 0; n < result_.points.size(); ++n) {
      if (n == result_.winner || !result_.points[n].failure.empty()) continue;
      if (!result_.runner_up || estimates_[n] < estimates_[*result_.runner_up]) result_.runner_up = n;
    }
    if (!result_.runner_up || result_.interrupted) return;
    const auto text_of = [&](std::size_t n) { return text_at(result_.points[n].point); };
    const MeasureAnswer answer =
        measurer_.ask(job(text_of(result_.winner), text_of(*result_.runner_up), kLastRounds * options_.rounds),
                      kLastRounds * options_.timeout_seconds, options_.stop);
    if (answer.failure == "stopped") {
      result_.interrupted = true;
      return;
    }
    if (!answer.failure.empty() || answer.samples_ms.empty() || answer.samples_ms.size() != answer.against_ms.size()) {
      result_.warnings.push_back(fmt::format("winner and runner-up could not be compared: {}", answer.message));
      return;
    }
    result_.method = answer.method;
    const PairedTimes other = compare_paired(answer.against_ms, answer.samples_ms);
    if (other.ratio < 1 && other.confidence >= kSureEnough) {
      std::swap(result_.winner, *result_.runner_up);
      result_.ratio = other.ratio;
      result_.confidence = other.confidence;
    } else {
      const PairedTimes paired = compare_paired(answer.samples_ms, answer.against_ms);
      result_.ratio = paired.ratio;
      result_.confidence = paired.confidence;
    }
  }

  [[noreturn]] void throw_nothing_found() {
    std::vector<std::string> notes;
    for (const TunedPoint& point : result_.points)
      if (notes.size() < 5) notes.push_back(fmt::format("{}: {}, {}", point.what, point.failure, point.message));
    std::vector<std::pair<std::uint64_t, std::string>> reasons;
    for (const auto& [reason, count] : search_.reasons()) reasons.emplace_back(count, reason);
    std::sort(reasons.rbegin(), reasons.rend());
    for (std::size_t n = 0; n < reasons.size() && n < 5; ++n)
      notes.push_back(fmt::format("{} points: {}", reasons[n].first, reasons[n].second));
    if (result_.interrupted)
      throw UserError({space_.file(), 0, 0, ""}, "the search was ended before a candidate was measured", notes);
    if (result_.points.empty() && options_.seconds > 0 && seconds() >= options_.seconds &&
        search_.counts().asked > search_.counts().illegal)
      throw UserError({space_.file(), 0, 0, ""},
                      fmt::format("the {} s to search were over before a candidate was measured", options_.seconds),
                      {"--seconds gives more"});
    throw UserError({space_.file(), 0, 0, ""},
                    result_.points.empty()
                        ? fmt::format("no point of the space is legal for {} on {}", algorithm_.name, target_.name)
                        : fmt::format("none of the {} candidates could be measured", result_.points.size()),
                    notes);
  }

  std::string text_at(const SpacePoint& point) const { return print_schedule(space_.schedule_at(point)); }

  MeasureJob job(const std::string& schedule, const std::string& against, int rounds) {
    if (check_extents_.empty())
      check_extents_ = small_extents(algorithm_, space_.schedule_at(SpacePoint(space_.axes().size(), 0)),
                                     options_.sizes, space_.largest_tiles());
    MeasureJob out = measure_job(algorithm_, options_.device, options_.dtype, options_.sizes, options_.engine);
    out.schedule = schedule;
    out.against = against;
    out.check_extents = check_extents_;
    out.seed = options_.seed;
    out.rounds = rounds;
    return out;
  }

  const Algorithm& algorithm_;
  const ScheduleSpace& space_;
  const TuneOptions& options_;
  const Clock::time_point start_ = Clock::now();
  const Target target_;
  runtime::ThreadPool pool_;
  Engine engine_;
  MeasurerProcess measurer_;
  TuneJournal journal_;
  Search search_;
  TuneResult result_;
  std::vector<double> estimates_;  // milliseconds, of each point
  std::optional<std::size_t> best_;
  std::size_t failed_ = 0;
  std::map<std::string, std::int64_t> check_extents_;
};

}  // namespace

TuneResult tune(const Algorithm& algorithm, const ScheduleSpace& space, const TuneOptions& options) {
  check_options(algorithm, space, options);
  return Tuner(algorithm, space, options).run();
}

}  // namespace astatide
