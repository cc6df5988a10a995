#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "api/device_name.h"
#include "api/tuned.h"
#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_device.h"

namespace astatide::tools {
namespace {

struct DispatchWords {
  RequestWords request;  // of which `schedule` stays empty: a choice is asked for
  std::vector<std::string> schedules;
  std::string target, device, store, threads = "0";
  bool no_store = false, json = false;
};

struct Asked {
  std::string algorithm;
  DispatchRequest request;
  std::vector<TunedCandidate> tuned;
  std::vector<Candidate> candidates;
  std::vector<std::string> warnings;

  /// The first that the store has for it, which goes before all that state what they serve; or none.
  const TunedCandidate* picked_tuned() const { return first_of(tuned); }
  /// The first that serves without the store, or none.
  const Candidate* picked() const { return first_of(candidates); }
  std::string name() const {
    if (picked_tuned() != nullptr) return picked_tuned()->schedule.name;
    return picked() != nullptr ? picked()->name : "";
  }

 private:
  template <class Asked>
  static const Asked* first_of(const std::vector<Asked>& all) {
    for (const Asked& one : all)
      if (one.why_not.empty()) return &one;
    return nullptr;
  }
};

/// "tuned on 2026-12-01 on NVIDIA H200 for D 128, Sq 513 to 1024: 0.412 ms; runner-up O.tile.i=64"
std::string tuned_text(const runtime::TunedEntry& entry) {
  return fmt::format("tuned{} on {}{} for {}: {:.4g} ms{}", entry.date.empty() ? "" : " on " + entry.date, entry.device,
                     entry.version.empty() ? "" : " by version " + entry.version, lengths_of(entry), entry.median_ms,
                     entry.runner_up.empty() ? "" : "; runner-up " + entry.runner_up);
}

std::string why_picked(const Candidate& candidate) {
  for (const PrintedDirective& directive : print_directives(candidate.schedule))
    if (directive.key == "serves") return "it states that it serves " + directive.value;
  throw InternalError("a schedule was asked that states nothing");
}

Asked compute(const DispatchWords& words) {
  Asked out;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  out.algorithm = algorithm.name;
  TunedRequest wanted;
  if (words.device.empty()) {
    out.request = request_of(words.request, algorithm, words.target);
  } else {
    if (!words.target.empty())
      throw UserError({"--device", 0, 0, {}}, "a device says its target itself", {"leave out --target"});
    const Device device = choose_device(words.device).device;
    out.request = request_of(words.request, algorithm, target_of(device).name);
    const int threads = static_cast<int>(parse_number(words.threads, "--threads", 0, 4096));
    wanted.device = name_of_device(device, threads).name;
  }
  if (!words.no_store) {
    EngineOptions engine;
    engine.tuning_store = words.store;
    wanted.what = out.request;
    if (const std::string path = tuning_store_of(engine); !path.empty())
      out.tuned = ask_tuned(algorithm, runtime::TuningStore(path).load(out.warnings), wanted);
  } else if (!words.store.empty()) {
    throw UserError({"--no-store", 0, 0, {}}, "nothing is read from a store, and --store names one",
                    {"one of the two"});
  }
  std::vector<NamedSchedule> schedules;
  for (const std::string& name : words.schedules) {
    schedules.push_back({name, load_schedule(name)});
    if (!schedules.back().schedule.serves)
      throw UserError(schedules.back().schedule.where, "the schedule does not state what it serves",
                      {"serves: {lengths: {i: [1, 16]}}"});
  }
  schedules.insert(schedules.end(), shipped_candidates().begin(), shipped_candidates().end());
  out.candidates = ask_schedules(algorithm, schedules, out.request);
  return out;
}

nlohmann::json to_json(const Asked& asked) {
  nlohmann::json candidates = nlohmann::json::array();
  for (const Candidate& candidate : asked.candidates) {
    nlohmann::json one = {{"schedule", candidate.name}, {"rank", candidate.schedule.serves->rank}};
    if (!candidate.why_not.empty()) one["why_not"] = candidate.why_not;
    candidates.push_back(std::move(one));
  }
  nlohmann::json tuned = nlohmann::json::array();
  for (const TunedCandidate& candidate : asked.tuned) {
    const runtime::TunedEntry& entry = candidate.entry;
    nlohmann::json one = {{"device", entry.device},       {"target", entry.target},       {"dtype", entry.dtype},
                          {"lengths", lengths_of(entry)}, {"date", entry.date},           {"version", entry.version},
                          {"median_ms", entry.median_ms}, {"runner_up", entry.runner_up}, {"text", entry.schedule}};
    if (!candidate.why_not.empty()) one["why_not"] = candidate.why_not;
    if (candidate.stale) one["stale"] = true;
    tuned.push_back(std::move(one));
  }
  const Candidate* picked = asked.picked();
  const nlohmann::json without = picked ? nlohmann::json(picked->name) : nlohmann::json();
  nlohmann::json json = {{"ok", !asked.name().empty()},
                         {"algorithm", asked.algorithm},
                         {"target", asked.request.target.name},
                         {"dtype", name_of(asked.request.dtype)},
                         {"shape", asked.request.sizes},
                         {"schedule", asked.picked_tuned() ? nlohmann::json(asked.name()) : without},
                         {"without_store", without},
                         {"tuned", tuned},
                         {"candidates", candidates},
                         {"warnings", asked.warnings}};
  if (const TunedCandidate* one = asked.picked_tuned()) {
    json["why"] = tuned_text(one->entry);
  } else if (picked != nullptr) {
    json["why"] = why_picked(*picked);
  }
  return json;
}

std::string to_text(const Asked& asked) {
  const TunedCandidate* tuned = asked.picked_tuned();
  const Candidate* picked = asked.picked();
  std::string text =
      fmt::format("{} on {}, {}: {}\n", asked.algorithm, asked.request.target.name, name_of(asked.request.dtype),
                  asked.name().empty() ? "no schedule serves it" : asked.name());
  if (tuned != nullptr) {
    text += fmt::format("  it was {}\n  without the store {}\n", tuned_text(tuned->entry),
                        picked ? picked->name : "none would serve");
  } else if (picked != nullptr) {
    text += fmt::format("  {}\n", why_picked(*picked));
  }
  for (const TunedCandidate& candidate : asked.tuned)
    if (&candidate != tuned)
      text +=
          fmt::format("  store  {}\n         {}{}\n", tuned_text(candidate.entry), candidate.stale ? "skipped: " : "",
                      candidate.why_not.empty() ? "serves it too" : candidate.why_not);
  for (const Candidate& candidate : asked.candidates)
    text += fmt::format("  {:>4}  {:<22} {}\n", candidate.schedule.serves->rank, candidate.name,
                        &candidate == picked         ? (tuned ? "picked without the store" : "picked")
                        : !candidate.why_not.empty() ? candidate.why_not
                                                     : "serves it too");
  return text;
}

int run(const DispatchWords& words) {
  const Asked asked = compute(words);
  if (words.json) {
    write_output(to_json(asked).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_result(to_text(asked), asked.warnings);
  }
  return !asked.name().empty() ? kDone : kWrongInput;
}

}  // namespace

Command add_dispatch_command(CLI::App& program) {
  const auto words = std::make_shared<DispatchWords>();
  CLI::App* app = program.add_subcommand(
      "dispatch", "Says which schedule serves an algorithm for a shape, a type and a target; needs no GPU.");
  add_algorithm_options(*app, words->request);
  app->add_option("--schedule", words->schedules, "schedule files to ask as well, before shipped ones of their rank")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app->add_option("--target", words->target, "machine to choose for, such as sm_90a or cpu; else sm_80");
  app->add_option("--device", words->device,
                  "auto, cpu, cuda or cuda:N: what was tuned on this one counts; else what was on any of the target");
  app->add_option("--threads", words->threads, "of the CPU, which tuned schedules are for; 0: all cores")
      ->type_name("N");
  app->add_option("--store", words->store, "file of tuned schedules; else the one that `run` looks at")
      ->type_name("FILE");
  app->add_flag("--no-store", words->no_store, "as if nothing had been tuned");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
