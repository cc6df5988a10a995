// What is done with a winner: a schedule file, and an entry of the store.
#include <fmt/format.h>

#include <ctime>

#include "api/tune.h"
#include "api/tuned.h"
#include "runtime/tuning_store.h"

namespace astatide {
namespace {

std::string text_of(const std::map<std::string, std::int64_t>& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

/// A comment may hold what a driver or a file says, but no line of its own.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return text;
}

/// "2026-12-01", of UTC.
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace

std::string tuned_schedule_text(const Algorithm& algorithm, const TuneOptions& options, const TuneResult& result) {
  const TunedPoint& winner = result.points[result.winner];
  std::string text;
  const auto comment = [&](const std::string& line) { text += "# " + one_line(line) + "\n"; };
  comment(fmt::format("Found by tune for {} on {}{}: {}, {}.", algorithm.name, result.device,
                      result.driver.empty() ? "" : ", driver " + result.driver, name_of(options.dtype),
                      text_of(options.sizes)));
  comment(fmt::format("{:.4f} ms in the middle, {:.4f} to {:.4f}; {}.", winner.median_ms, winner.least_ms,
                      winner.most_ms, result.method));
  comment(winner.what);
  if (result.runner_up) {
    comment(fmt::format("Runner-up: {}", result.points[*result.runner_up].what));
    if (result.interrupted) {
      comment("Not compared with it once more: the search was ended.");
    } else {
      comment(fmt::format("It takes {:.4f} times as long as the runner-up, faster with a confidence of {:.2f} %.",
                          result.ratio, 100 * result.confidence));
    }
  }
  comment(fmt::format("{} of {} points measured, search {}, seed {}.", result.points.size(), result.counts.asked,
                      name_of(options.search), options.seed));
  return text + print_schedule(result.best);
}

std::vector<std::string> keep_tuned(const Algorithm& algorithm, const TuneOptions& options, const TuneResult& result,
                                    const std::string& path) {
  const std::string file = path.empty() ? tuning_store_of(options.engine) : path;
  std::vector<std::string> warnings;
  if (file.empty()) return {"there is no place for tuned schedules: set ASTATIDE_CACHE_DIR, XDG_CACHE_HOME or HOME"};
  runtime::TunedEntry entry =
      tuned_key(algorithm, result.best, options.device, options.engine.threads, options.dtype, options.sizes);
  entry.schedule = print_schedule(result.best);
  entry.median_ms = result.points[result.winner].median_ms;
  entry.confidence = result.confidence;
  if (result.runner_up) entry.runner_up = result.points[*result.runner_up].what;
  entry.method = result.method;
  entry.date = today();
  runtime::TuningStore(file).keep(entry, warnings);
  return warnings;
}

}  // namespace astatide
