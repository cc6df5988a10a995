#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "api/compare.h"
#include "tools/commands.h"
#include "tools/explain_cost.h"
#include "tools/request.h"
#include "tools/run_device.h"

namespace astatide::tools {
namespace {

struct DiffWords {
  std::string first, second;
  RequestWords request;  // of which `schedule` stays empty
  std::string target, device = "auto", rounds = "9", seed = "0", threads = "0";
  bool source = false, measure = false, json = false;
};

struct Compared {
  NamedSchedule first, second;
  std::string algorithm;  // empty: the schedules alone
  CompareOptions options;
  ScheduleDifference value;

  bool are_equal() const { return value.directives.empty(); }
};

/// Schedules are compared on one machine: the larger of those that they need.
Target target_for_both(const Schedule& first, const Schedule& second) {
  const Target one = parse_target(first.target), other = parse_target(second.target);
  if (one.is_cuda() != other.is_cuda())
    throw UserError(
        {"--target", 0, 0, {}},
        fmt::format("one schedule is for {}, the other for {}: which machine is meant?", one.name, other.name),
        {"--target cpu runs schedules for GPUs, too"});
  return one.compute_capability >= other.compute_capability ? one : other;
}

Device device_for(const DiffWords& words, const Target& target) {
  const Device device =
      choose_device(words.device == "auto" ? (target.is_cuda() ? "cuda" : "cpu") : words.device).device;
  const Target there = target_of(device);
  if (there.name != target.name)
    throw UserError(
        {"--target", 0, 0, {}},
        fmt::format("--measure is of the {} that is there, the comparison is for {}", there.name, target.name),
        {"--target " + there.name});
  return device;
}

void refuse_without_algorithm(const DiffWords& words) {
  const std::vector<std::pair<const char*, bool>> given = {{"--shape", !words.request.shapes.empty()},
                                                           {"--dtype", !words.request.dtype.empty()},
                                                           {"--target", !words.target.empty()},
                                                           {"--source", words.source},
                                                           {"--measure", words.measure},
                                                           {"--device", words.device != "auto"}};
  for (const auto& [flag, is_given] : given)
    if (is_given)
      throw UserError({flag, 0, 0, {}}, "without an algorithm schedules are compared as they are written",
                      {"name one behind the schedules: astatide diff S1 S2 causal_gqa"});
}

Compared compute(const DiffWords& words) {
  Compared out;
  out.first = {words.first, load_schedule(words.first)};
  out.second = {words.second, load_schedule(words.second)};
  if (words.request.algorithm.empty()) {
    refuse_without_algorithm(words);
    out.value.directives = differing_directives(out.first.schedule, out.second.schedule);
    return out;
  }
  if (!words.measure && words.device != "auto")
    throw UserError({"--device", 0, 0, {}}, "says where to measure, which nobody asks for", {"--measure"});
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  out.algorithm = algorithm.name;
  CompareOptions& options = out.options;
  options.target =
      words.target.empty() ? target_for_both(out.first.schedule, out.second.schedule) : parse_target(words.target);
  const DispatchRequest request = request_of(words.request, algorithm, options.target.name);
  options.sizes = request.sizes;
  options.dtype = request.dtype;
  options.source = words.source;
  options.rounds = static_cast<int>(parse_number(words.rounds, "--rounds", 5, 1000));
  options.seed = static_cast<std::uint64_t>(parse_number(words.seed, "--seed", 0, INT64_MAX));
  options.engine.threads = static_cast<int>(parse_number(words.threads, "--threads", 0, 4096));
  if (words.measure) options.measure_on = device_for(words, options.target);
  out.value = compare_schedules(algorithm, out.first, out.second, options);
  return out;
}

std::string value_text(const ComparedValue& row, const ComparedValue::Value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return "-";
  if (row.unit == "bytes") return bytes_text(*number);
  if (row.unit == "s") return time_text(*number);
  return count_text(*number);
}

/// "  x 1.25": the second over the first.
std::string ratio_text(const ComparedValue& row) {
  const auto *first = std::get_if<double>(&row.first), *second = std::get_if<double>(&row.second);
  return first && second && *first > 0 && *second > 0 ? fmt::format("  x {:.3g}", *second / *first) : "";
}

std::string directives_text(const Compared& out) {
  std::string text;
  for (const DirectiveDifference& one : out.value.directives)
    text += fmt::format("  {}\n    - {}\n    + {}\n", one.place, one.first.empty() ? "not said" : one.first,
                        one.second.empty() ? "not said" : one.second);
  return text;
}

std::string measured_text(const MeasuredDifference& measured) {
  std::string text = fmt::format("measured on {}\n", measured.device);
  for (const auto& [which, failure] :
       {std::pair{"first", &measured.first_failure}, {"second", &measured.second_failure}})
    if (!failure->empty()) text += fmt::format("  the {} schedule can't be measured: {}\n", which, *failure);
  if (measured.method.empty()) return text;
  text += fmt::format("  {:.4f} ms | {:.4f} ms in the middle, {}\n", measured.first_ms, measured.second_ms,
                      measured.method);
  const double sure = std::max(measured.first_is_faster, measured.second_is_faster);
  return text + fmt::format(
                    "  round by round the first takes {:.4f} times as long as the second; {} is faster with a "
                    "confidence of {:.2f} %\n",
                    measured.ratio, measured.first_is_faster >= measured.second_is_faster ? "the first" : "the second",
                    100 * sure);
}

std::string to_text(const Compared& out) {
  std::string text = fmt::format("- {}\n+ {}\n", out.first.name, out.second.name);
  if (!out.algorithm.empty())
    text += fmt::format("{} for {}, {}, {}\n", out.algorithm, out.options.target.name, name_of(out.options.dtype),
                        extents_text(out.options.sizes));
  if (out.are_equal()) {
    text += "the schedules are equal\n";
  } else {
    text += "\ndirectives\n" + directives_text(out);
  }
  if (out.algorithm.empty()) return text;
  if (!out.are_equal())
    text += out.value.loops.empty() ? "\nloops: the same\n" : "\nloops, as lowered\n" + out.value.loops;
  std::string section;
  std::size_t same = 0;
  for (const ComparedValue& row : out.value.values) {
    // Totals stand also where they are the same.
    if (!row.differs() && !row.kernel.empty()) {
      ++same;
      continue;
    }
    if (section != name_of(row.section)) text += fmt::format("\n{}\n", section = name_of(row.section));
    text += fmt::format("  {:<38} {} | {}{}\n", row.kernel.empty() ? "all: " + row.what : row.kernel + ": " + row.what,
                        value_text(row, row.first), value_text(row, row.second), ratio_text(row));
  }
  text += fmt::format("\n{} more values are the same for both\n", same);
  if (out.options.source) text += out.value.source.empty() ? "\nsource: the same\n" : "\nsource\n" + out.value.source;
  if (out.value.measured) text += "\n" + measured_text(*out.value.measured);
  return text;
}

nlohmann::json to_json(const ComparedValue::Value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return nullptr;
}

nlohmann::json to_json(const Compared& out) {
  nlohmann::json json = {{"ok", true},
                         {"first", out.first.name},
                         {"second", out.second.name},
                         {"equal", out.are_equal()},
                         {"directives", nlohmann::json::array()}};
  const auto said = [](const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); };
  for (const DirectiveDifference& one : out.value.directives)
    json["directives"].push_back({{"place", one.place}, {"first", said(one.first)}, {"second", said(one.second)}});
  if (out.algorithm.empty()) return json;
  json["algorithm"] = out.algorithm;
  json["target"] = out.options.target.name;
  json["dtype"] = name_of(out.options.dtype);
  json["shape"] = out.options.sizes;
  json["loops"] = out.value.loops;
  if (out.options.source) json["source"] = out.value.source;
  json["values"] = nlohmann::json::array();
  for (const ComparedValue& row : out.value.values)
    json["values"].push_back({{"section", name_of(row.section)},
                              {"kernel", said(row.kernel)},
                              {"what", row.what},
                              {"unit", row.unit},
                              {"first", to_json(row.first)},
                              {"second", to_json(row.second)}});
  if (const auto& measured = out.value.measured) {
    json["ok"] = measured->first_failure.empty() && measured->second_failure.empty();
    json["measured"] = {{"device", measured->device},
                        {"first_failure", said(measured->first_failure)},
                        {"second_failure", said(measured->second_failure)}};
    if (json["ok"])
      json["measured"].update({{"method", measured->method},
                               {"first_ms", measured->first_ms},
                               {"second_ms", measured->second_ms},
                               {"ratio", measured->ratio},
                               {"first_is_faster", measured->first_is_faster},
                               {"second_is_faster", measured->second_is_faster}});
  }
  return json;
}

int run(const DiffWords& words) {
  const Compared out = compute(words);
  write_output(words.json ? to_json(out).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                          : to_text(out));
  const auto& measured = out.value.measured;
  return measured && !(measured->first_failure.empty() && measured->second_failure.empty()) ? kCheckFailed : kDone;
}

}  // namespace

Command add_diff_command(CLI::App& program) {
  const auto words = std::make_shared<DiffWords>();
  CLI::App* app = program.add_subcommand(
      "diff",
      "Compares two schedules: what they say, and for an algorithm loops, storage, traffic and time; needs no GPU.");
  app->add_option("FIRST", words->first, "schedule file, or the name of a shipped one")->required();
  app->add_option("SECOND", words->second, "the one to compare it with")->required();
  add_algorithm_options(*app, words->request);
  app->get_option("ALG")->required(false);
  app->add_option("--target", words->target, "machine to compare for; else the larger of the schedules' own");
  app->add_flag("--source", words->source, "compares the CUDA source, or LLVM's for the CPU, line by line");
  app->add_flag("--measure", words->measure, "times both in turn where they run, after a check against the evaluator");
  app->add_option("--device", words->device, "of --measure: cpu, cuda or cuda:N; else what the target says");
  app->add_option("--rounds", words->rounds, "of --measure, 5 and more")->type_name("N");
  app->add_option("--seed", words->seed, "of random inputs")->type_name("N");
  app->add_option("--threads", words->threads, "of the CPU; 0: all cores")->type_name("N");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
