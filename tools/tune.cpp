#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "api/tune.h"
#include "tools/commands.h"
#include "tools/measuring.h"
#include "tools/request.h"
#include "tools/run_device.h"
#include "tools/write_file.h"

namespace astatide::tools {
namespace {

struct TuneWords {
  RequestWords request;  // of which `schedule` stays empty
  MeasuringWords measuring;
  std::string space, device = "auto", search = "model", points = "64", seconds = "0", output, journal, store;
  bool resume = false, no_store = false, json = false;
};

volatile std::sig_atomic_t interrupted = 0;

/// While it lives, a first Ctrl-C asks the search to end; a second one ends the program.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &before_);
  }
  ~CatchInterrupt() { ::sigaction(SIGINT, &before_, nullptr); }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

 private:
  struct sigaction before_ = {};
};

/// "12.3 s  9/64 measured, 1 failed, best 0.4123 ms: O.tile.i=64, ring=two"
std::string progress_text(const TuneProgress& progress) {
  std::string text = fmt::format("{:.1f} s  {}{} measured", progress.seconds, progress.measured,
                                 progress.most == 0 ? "" : fmt::format("/{}", progress.most));
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  if (progress.best) text += fmt::format(", best {:.4f} ms: {}", progress.best->median_ms, progress.best->what);
  return text;
}

void show_progress(const TuneProgress& progress) {
  std::string text = progress_text(progress);
  constexpr std::size_t kWidth = 118;
  if (text.size() > kWidth) text = text.substr(0, kWidth - 2) + "..";
  write_message("\r\x1b[K" + text);
}

struct Tuned {
  std::string algorithm, space, file;
  TuneOptions options;
  TuneResult result;
};

double seconds_of(const std::string& text, const std::string& flag) {
  return static_cast<double>(parse_number(text, flag, 0, 10'000'000));
}

Tuned compute(const TuneWords& words) {
  Tuned out;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  out.algorithm = algorithm.name;
  out.space = words.space;
  const ScheduleSpace space = load_space(words.space);
  TuneOptions& options = out.options;
  const std::string least = space.schedule_at(SpacePoint(space.axes().size(), 0)).target;
  options.device = choose_device(words.device == "auto" && least == "cpu" ? "cpu" : words.device).device;
  options.sizes = sizes_of(algorithm, words.request.shapes);
  if (!words.request.dtype.empty()) options.dtype = parse_dtype(words.request.dtype);
  const auto kind = parse_search_kind(words.search);
  if (!kind)
    throw UserError({"--search", 0, 0, {}}, fmt::format("no search '{}'", words.search),
                    suggestion(words.search, {"model", "exhaustive", "random"}));
  options.search = *kind;
  options.points = static_cast<std::size_t>(parse_number(words.points, "--points", 0, 1'000'000'000));
  options.seconds = seconds_of(words.seconds, "--seconds");
  set_measuring(measuring_of(words.measuring, "--rounds", 5), options);
  out.file = words.output.empty() ? algorithm.name + "_tuned.yaml" : words.output;
  options.journal = words.journal.empty() ? out.file + ".journal" : words.journal;
  options.resume = words.resume;
  options.stop = [] { return interrupted != 0; };
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && !words.json;
  if (terminal) options.progress = show_progress;

  const CatchInterrupt guard;
  try {
    out.result = tune(algorithm, space, options);
  } catch (...) {
    if (terminal) write_message("\n");
    throw;
  }
  if (terminal) write_message("\n");
  write_file(out.file, tuned_schedule_text(algorithm, options, out.result));
  if (!words.no_store)
    for (std::string& warning : keep_tuned(algorithm, options, out.result, words.store))
      out.result.warnings.push_back(std::move(warning));
  if (out.result.interrupted)
    out.result.warnings.push_back(fmt::format("the search was ended early; --resume goes on with {}", options.journal));
  return out;
}

nlohmann::json to_json(const TunedPoint& point) {
  nlohmann::json json = {{"point", point.what}, {"ok", point.failure.empty()}, {"resumed", point.resumed}};
  if (!point.failure.empty()) {
    json["failure"] = point.failure;
    json["message"] = point.message;
    return json;
  }
  json["time_ms"] = {{"median", point.median_ms}, {"min", point.least_ms}, {"max", point.most_ms}};
  json["ratio"] = point.ratio;
  json["confidence"] = point.confidence;
  json["better"] = point.better;
  json["registers"] = point.registers;
  json["spill_bytes"] = point.spill_bytes;
  json["shared_bytes"] = point.shared_bytes;
  return json;
}

nlohmann::json to_json(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  nlohmann::json points = nlohmann::json::array();
  for (const TunedPoint& point : result.points) points.push_back(to_json(point));
  nlohmann::json json = {{"ok", true},
                         {"algorithm", tuned.algorithm},
                         {"space", tuned.space},
                         {"device", result.device},
                         {"driver", result.driver},
                         {"method", result.method},
                         {"dtype", name_of(tuned.options.dtype)},
                         {"shape", tuned.options.sizes},
                         {"search", name_of(tuned.options.search)},
                         {"seed", tuned.options.seed},
                         {"seconds", result.seconds},
                         {"interrupted", result.interrupted},
                         {"asked", result.counts.asked},
                         {"illegal", result.counts.illegal},
                         {"left_out", result.reasons},
                         {"points", points},
                         {"winner", to_json(result.points[result.winner])},
                         {"ratio", result.ratio},
                         {"confidence", result.confidence},
                         {"schedule", tuned.file},
                         {"journal", tuned.options.journal},
                         {"warnings", result.warnings}};
  if (result.runner_up) json["runner_up"] = to_json(result.points[*result.runner_up]);
  return json;
}

std::string to_text(const Tuned& tuned) {
  const TuneResult& result = tuned.result;
  const TunedPoint& winner = result.points[result.winner];
  std::map<std::string, std::size_t> failures;
  for (const TunedPoint& point : result.points)
    if (!point.failure.empty()) ++failures[point.failure];
  std::string text = fmt::format("{} on {}, {}, {}\n", tuned.algorithm, result.device, name_of(tuned.options.dtype),
                                 extents_text(tuned.options.sizes));
  text += fmt::format("  best       {:.4f} ms median, {:.4f} to {:.4f}: {}\n", winner.median_ms, winner.least_ms,
                      winner.most_ms, winner.what);
  if (winner.registers > 0)
    text += fmt::format("             {} registers, {} bytes spilled\n", winner.registers, winner.spill_bytes);
  if (result.runner_up)
    text += fmt::format(
        "  runner-up  {}\n             the best takes {:.4f} times as long, faster with a confidence of {:.2f} %\n",
        result.points[*result.runner_up].what, result.ratio, 100 * result.confidence);
  text += fmt::format("  measured   {} points in {:.1f} s, {}\n", result.points.size(), result.seconds, result.method);
  text += fmt::format("  left out   {} of {} points as illegal\n", result.counts.illegal, result.counts.asked);
  for (const auto& [failure, count] : failures) {
    text += fmt::format("  {:<10} {}", failure, count);
    for (const TunedPoint& point : result.points)
      if (point.failure == failure) {
        text += fmt::format(", such as {}: {}", point.what, point.message.substr(0, point.message.find('\n')));
        break;
      }
    text += "\n";
  }
  return text + fmt::format("  schedule   {}\n", tuned.file);
}

int run(const TuneWords& words) {
  const Tuned tuned = compute(words);
  if (words.json) {
    write_output(to_json(tuned).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_result(to_text(tuned), tuned.result.warnings);
  }
  return kDone;
}

}  // namespace

Command add_tune_command(CLI::App& program) {
  const auto words = std::make_shared<TuneWords>();
  CLI::App* app = program.add_subcommand("tune", "Searches a space of schedules for the fastest one on this machine.");
  add_algorithm_options(*app, words->request);
  app->add_option("--space", words->space, "a schedule file with alternatives, or the name of a shipped space")
      ->required();
  app->add_option("--device", words->device, "auto (a GPU where there is one), cpu, cuda or cuda:N");
  app->add_option("--search", words->search, "model, exhaustive or random");
  app->add_option("--points", words->points, "candidates to measure at most; 0: as many as there are")->type_name("N");
  app->add_option("--seconds", words->seconds, "time to search at most; 0: as long as it takes")->type_name("N");
  add_measuring_options(*app, words->measuring, "--rounds", "of a candidate and the best so far in turn, 5 and more");
  app->add_option("--output", words->output, "schedule file to write; else ALG_tuned.yaml")->type_name("FILE");
  app->add_option("--journal", words->journal, "file with a line for each candidate; else beside the schedule file")
      ->type_name("FILE");
  app->add_flag("--resume", words->resume, "goes on where a search that was ended has left its journal");
  app->add_option("--store", words->store, "file of tuned schedules; else the one that `run` looks at")
      ->type_name("FILE");
  app->add_flag("--no-store", words->no_store, "keeps the winner in no store");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
