#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

struct DispatchWords {
  RequestWords request;  // of which `schedule` stays empty: a choice is asked for
  std::vector<std::string> schedules;
  std::string target;
  bool json = false;
};

struct Asked {
  std::string algorithm;
  DispatchRequest request;
  std::vector<Candidate> candidates;

  /// The first that serves, or none.
  const Candidate* picked() const {
    for (const Candidate& candidate : candidates)
      if (candidate.why_not.empty()) return &candidate;
    return nullptr;
  }
};

Asked compute(const DispatchWords& words) {
  Asked out;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  out.algorithm = algorithm.name;
  out.request = request_of(words.request, algorithm, words.target);
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
  const Candidate* picked = asked.picked();
  return {{"ok", picked != nullptr},
          {"algorithm", asked.algorithm},
          {"target", asked.request.target.name},
          {"dtype", name_of(asked.request.dtype)},
          {"shape", asked.request.sizes},
          {"schedule", picked ? nlohmann::json(picked->name) : nlohmann::json()},
          {"candidates", candidates}};
}

std::string to_text(const Asked& asked) {
  const Candidate* picked = asked.picked();
  std::string text = fmt::format("{} on {}, {}: {}\n", asked.algorithm, asked.request.target.name,
                                 name_of(asked.request.dtype), picked ? picked->name : "no schedule serves it");
  for (const Candidate& candidate : asked.candidates)
    text += fmt::format("  {:>4}  {:<22} {}\n", candidate.schedule.serves->rank, candidate.name,
                        &candidate == picked         ? "picked"
                        : !candidate.why_not.empty() ? candidate.why_not
                                                     : "serves it too");
  return text;
}

int run(const DispatchWords& words) {
  const Asked asked = compute(words);
  if (words.json) {
    write_output(to_json(asked).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_output(to_text(asked));
  }
  return asked.picked() ? kDone : kWrongInput;
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
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
