#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "api/clock.h"
#include "api/engine_state.h"
#include "compiler/algorithm/names.h"
#include "runtime/thread_pool.h"

namespace astatide {
namespace {

/// One build, and the requests that it serves.
struct Job {
  Recipe recipe;
  BuildOptions options;
  std::string schedule;
  std::string what;
  std::vector<std::size_t> requests;
  std::exception_ptr failure;
  Prepared result;
};

std::string text_of(const PrepareRequest& request) {
  std::string text(name_of(request.dtype));
  for (const auto& [name, value] : request.sizes)
    text += fmt::format("{}{}={}", text.find('=') == std::string::npos ? ", " : ",", name, value);
  return text;
}

/// What failed, a problem once with every request that has it.
class Failures {
 public:
  void add(const std::string& request, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const UserError& error) {
      machine_ = machine_ || dynamic_cast<const MachineError*>(&error) != nullptr;
      for (const Diagnostic& problem : error.diagnostics()) add(request, problem);
    } catch (const std::exception& error) {
      ours_ = true;
      add(request, Diagnostic{{}, error.what(), {}});
    }
  }

  void throw_if_any() const {
    if (problems_.empty()) return;
    std::vector<Diagnostic> all;
    for (const Problem& problem : problems_) {
      all.push_back(problem.first);
      all.back().message = join(problem.requests, "; ") + ": " + problem.first.message;
    }
    if (!ours_ && machine_) throw MachineError(all);
    if (!ours_) throw UserError(all);
    std::string text;
    for (const Diagnostic& problem : all) text += (text.empty() ? "" : "\n") + format_diagnostic(problem);
    throw InternalError(text);
  }

 private:
  struct Problem {
    Diagnostic first;
    std::vector<std::string> requests;
  };

  void add(const std::string& request, const Diagnostic& diagnostic) {
    const auto same = std::find_if(problems_.begin(), problems_.end(), [&](const Problem& problem) {
      return problem.first.message == diagnostic.message && problem.first.where == diagnostic.where;
    });
    if (same == problems_.end()) {
      problems_.push_back({diagnostic, {request}});
    } else if (same->requests.back() != request) {
      same->requests.push_back(request);
    }
  }

  std::vector<Problem> problems_;
  bool machine_ = false, ours_ = false;
};

Target wanted_target(const PrepareOptions& options) {
  if (options.target.empty()) return target_of(options.device);
  if (const Target* target = find_target(options.target)) return *target;
  std::vector<std::string> known;
  for (const Target& target : known_targets()) known.push_back(target.name);
  const std::string near = nearest_name(options.target, known);
  throw UserError(fmt::format("no target '{}' to prepare for", quoted(options.target)),
                  {near.empty() ? "known are " + join(known) : "did you mean " + near + "?"});
}

}  // namespace

std::vector<Prepared> Engine::prepare(const Algorithm& algorithm, const std::vector<PrepareRequest>& requests,
                                      const PrepareOptions& options) {
  const Target target = wanted_target(options);
  const bool on_cpu = target.kind == Target::Kind::cpu;
  // The code of a CPU is for this one, and is kept like that of a device.
  const bool elsewhere = !options.target.empty() && !on_cpu;
  const Device device = on_cpu ? Device::cpu() : elsewhere ? Device::cuda(0) : options.device;

  Failures failures;
  std::vector<Job> jobs;
  std::vector<std::size_t> job_of(requests.size(), SIZE_MAX);
  std::map<std::string, std::size_t> by_key;
  for (std::size_t n = 0; n < requests.size(); ++n) {
    const PrepareRequest& request = requests[n];
    BuildOptions build{device, request.dtype, request.sizes, {}};
    try {
      const NamedSchedule schedule =
          request.schedule         ? *request.schedule
          : options.target.empty() ? state_->choose(algorithm, build, target)
                                   : dispatch(algorithm, shipped_candidates(), {target, request.dtype, request.sizes});
      Recipe recipe = State::recipe_of(algorithm, schedule.schedule, build);
      const auto [job, added] = by_key.try_emplace(key_of(recipe, target, build), jobs.size());
      if (added)
        jobs.push_back(
            {std::move(recipe),
             std::move(build),
             schedule.name,
             fmt::format("{} for {} under {}, {}", algorithm.name, target.name, schedule.name, text_of(request)),
             {},
             nullptr,
             {}});
      jobs[job->second].requests.push_back(n);
      job_of[n] = job->second;
    } catch (const std::exception&) {
      failures.add(text_of(request), std::current_exception());
    }
  }

  std::mutex mutex;  // guards done, and calls of progress
  std::size_t done = 0;
  const auto make = [&](Job& job) {
    const auto start = Clock::now();
    try {
      const BuildReport report = elsewhere ? state_->build(job.recipe, job.options, target)->report
                                           : state_->find_or_build(job.recipe, job.options).report();
      job.result = {job.schedule, report.target, report.cache, report.lower_ms, report.compile_ms};
    } catch (const std::exception&) {
      job.failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress)
      options.progress(
          {done, jobs.size(), job.what, job.failure ? "failed" : job.result.cache, milliseconds_since(start)});
  };
  if (!jobs.empty()) {
    runtime::ThreadPool pool(options.threads, static_cast<int>(jobs.size()));
    pool.for_each_range(static_cast<std::int64_t>(jobs.size()), 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) make(jobs[static_cast<std::size_t>(n)]);
    });
  }

  for (const Job& job : jobs)
    if (job.failure)
      for (const std::size_t n : job.requests) failures.add(text_of(requests[n]), job.failure);
  failures.throw_if_any();
  if (const auto why = elsewhere ? state_->kernels->disk().why_unusable() : std::nullopt)
    throw MachineError(
        fmt::format("kernels for {} were compiled, and nothing keeps them for another process", target.name), {*why});

  std::vector<Prepared> results;
  for (std::size_t n = 0; n < requests.size(); ++n) {
    const Job& job = jobs[job_of[n]];
    results.push_back(job.result);
    if (job.requests.front() != n) {
      results.back().cache = name_of(runtime::CacheOrigin::memory);
      results.back().lower_ms = results.back().compile_ms = 0;
    }
  }
  return results;
}

}  // namespace astatide
