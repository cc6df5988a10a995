#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/check_outputs.h"
#include "api/check_reads.h"
#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_data.h"
#include "tools/run_device.h"

namespace astatide::tools {
namespace {

/// A check that takes longer is announced.
constexpr double kLongCheckSeconds = 30;

struct RunWords {
  RequestWords request;
  std::string device = "auto";
  std::vector<std::string> inputs, outputs, scalars;
  std::string seed = "0", repeat = "0", threads = "0";
  bool check = false, check_indices = false, json = false, trace = false;
};

struct Result {
  std::string algorithm, schedule;
  ChosenDevice device;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> extents;
  std::uint64_t seed = 0;
  bool random = false;
  Measured time;
  BuildReport report;
  Counters counters;
  std::int64_t workspace_bytes = 0;
  HostTensors outputs;
  std::vector<OutputCheck> checks;
  std::vector<std::string> warnings;

  bool ok() const {
    return std::all_of(checks.begin(), checks.end(), [](const OutputCheck& check) { return check.ok(); });
  }
};

std::vector<FileWord> output_files(const Algorithm& algorithm, const std::vector<std::string>& words) {
  return parse_file_words("--output", words, algorithm.outputs);
}

/// What a launch on a GPU can't look at: the data of indices.
void check_indices(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                   const HostTensors& inputs, PlacesChecked places) {
  const ReadSites reads = find_read_sites(algorithm);
  HostIntegers data;
  for (const std::string& name : index_inputs(reads)) data[name] = view_of(inputs.at(name));
  Diagnostics errors;
  check_reads(reads, extents, data, errors, places);
  errors.throw_if_any();
}

std::int64_t bytes_of(const Executable& executable, const std::map<std::string, std::int64_t>& extents) {
  std::int64_t bytes = 0;
  for (const tile::Tensor& tensor : executable.program().tensors) {
    if (tensor.role != tile::Tensor::Role::input && tensor.role != tile::Tensor::Role::output) continue;
    std::int64_t own = size_in_bytes(tensor.type);
    for (const std::int64_t extent : describe_tensor(executable, tensor.name, extents).shape) own *= extent;
    if (__builtin_add_overflow(bytes, own, &bytes))
      throw MachineError("the tensors together need more than 2^63 bytes");
  }
  return bytes;
}

Result compute(const RunWords& words) {
  Result result;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  const std::vector<FileWord> files = parse_file_words("--input", words.inputs, input_names(algorithm));
  const std::vector<FileWord> destinations = output_files(algorithm, words.outputs);
  result.seed = static_cast<std::uint64_t>(parse_number(words.seed, "--seed", 0, INT64_MAX));
  const int repetitions = static_cast<int>(parse_number(words.repeat, "--repeat", 0, 1'000'000));
  EngineOptions engine_options;
  engine_options.threads = static_cast<int>(parse_number(words.threads, "--threads", 0, 4096));
  std::map<std::string, double> scalars;
  for (const std::string& text : words.scalars) parse_scalars(text, algorithm, scalars);
  result.algorithm = algorithm.name;
  // A schedule for the CPU runs nowhere else.
  const bool needs_cpu = !words.request.schedule.empty() && load_schedule(words.request.schedule).target == "cpu";
  result.device = choose_device(needs_cpu && words.device == "auto" ? "cpu" : words.device);

  const HostTensors read = read_inputs(algorithm, files, result.warnings);
  result.random = read.size() < algorithm.inputs.size();
  result.extents = choose_extents(algorithm, read, words.request.shapes);
  result.dtype = !words.request.dtype.empty() ? parse_dtype(words.request.dtype)
                                              : common_type(algorithm, read).value_or(ScalarType::f32);
  const auto [name, schedule] =
      choose_schedule(words.request, algorithm, {target_of(result.device.device), result.dtype, result.extents});
  result.schedule = name;

  Engine engine(engine_options);
  BuildOptions build{result.device.device, result.dtype, result.extents, {}};
  if (words.trace)
    build.trace = [](std::string_view stage, const tile::Program& program) {
      write_message(fmt::format("# after {}\n{}\n", stage, tile::print(program)));
    };
  const Executable executable = engine.build(algorithm, schedule, build);
  result.report = executable.report();
  result.workspace_bytes = executable.workspace_bytes(result.extents);
  require_memory(bytes_of(executable, result.extents), "the tensors");
  const HostTensors inputs = prepare_inputs(executable, read, result.extents, result.seed);
  check_indices(algorithm, result.extents, inputs, words.check_indices ? PlacesChecked::all : PlacesChecked::few);
  result.outputs = prepare_outputs(executable, result.extents);

  result.time =
      run_on_device(executable, result.device.device, inputs, result.outputs, scalars, result.extents, repetitions);
  result.counters = engine.counters();
  for (std::string& warning : engine.take_warnings()) result.warnings.push_back(std::move(warning));
  if (words.check) {
    const double seconds = estimate_check_seconds(algorithm, result.extents);
    if (seconds > kLongCheckSeconds)
      write_message(fmt::format("warning: the check in double precision takes about {:.0f} seconds\n", seconds));
    result.checks = check_outputs(algorithm, result.extents, scalars, inputs, result.outputs,
                                  computes_in_tf32(schedule, result.device.device));
  }
  write_outputs(destinations, result.outputs);
  return result;
}

nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

nlohmann::json to_json(const Result& result) {
  nlohmann::json outputs = nlohmann::json::object();
  for (const auto& [name, tensor] : result.outputs)
    outputs[name] = {{"shape", tensor.shape}, {"dtype", name_of(tensor.dtype)}};
  for (const OutputCheck& check : result.checks) {
    nlohmann::json& out = outputs[check.name];
    out["ok"] = check.ok();
    out["max_abs_error"] = number(check.max_abs_error);
    out["relative_error"] = number(check.relative_error);
    out["limit"] = check.limit;
    out["plain_error"] = check.plain_error;
    if (check.wrong_nonfinite > 0) out["wrong_nonfinite"] = check.wrong_nonfinite;
  }
  nlohmann::json json = {
      {"ok", result.ok()},
      {"algorithm", result.algorithm},
      {"schedule", result.schedule},
      {"device", result.device.name},
      {"target", result.report.target},
      {"dtype", name_of(result.dtype)},
      {"shape", result.extents},
      {"time_ms",
       {{"median", result.time.median_ms}, {"min", result.time.min_ms}, {"repetitions", result.time.repetitions}}},
      {"outputs", outputs},
      {"compiles", result.counters.compiles},
      {"cache", result.report.cache},
      {"lower_ms", result.report.lower_ms},
      {"compile_ms", result.report.compile_ms},
      {"workspace_bytes", result.workspace_bytes},
      {"warnings", result.warnings}};
  if (!result.device.model.empty()) json["device_name"] = result.device.model;
  if (result.random) json["seed"] = result.seed;
  return json;
}

std::string to_text(const Result& result) {
  std::string shape;
  for (const auto& [name, value] : result.extents)
    shape += fmt::format("{}{}={}", shape.empty() ? "" : ",", name, value);
  std::string text =
      fmt::format("{} with {} on {}{}, {}, {}\n", result.algorithm, result.schedule, result.device.name,
                  result.device.model.empty() ? "" : " (" + result.device.model + ")", name_of(result.dtype), shape);
  if (result.random) text += fmt::format("  inputs     normal, --seed {}\n", result.seed);
  text += fmt::format("  time       {:.4f} ms median, {:.4f} ms least of {}\n", result.time.median_ms,
                      result.time.min_ms, result.time.repetitions);
  text += fmt::format("  compiled   in {:.1f} ms, source in {:.1f} ms, cache: {}\n", result.report.compile_ms,
                      result.report.lower_ms, result.report.cache);
  if (result.workspace_bytes > 0) text += fmt::format("  scratch    {} bytes\n", result.workspace_bytes);
  for (const OutputCheck& check : result.checks) {
    text += fmt::format("  {:<10} error {:.3g} of at most {:.3g}, relative {:.3g}, plain f32 {:.3g}: {}\n", check.name,
                        check.max_abs_error, check.limit, check.relative_error, check.plain_error,
                        check.ok() ? "ok" : "WRONG");
    if (check.wrong_nonfinite > 0)
      text += fmt::format("  {:<10} {} elements are infinite or NaN where they should not be, or the reverse\n", "",
                          check.wrong_nonfinite);
  }
  return text;
}

int run(const RunWords& words) {
  const Result result = compute(words);
  if (words.json) {
    write_output(to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_output(to_text(result));
    for (const std::string& warning : result.warnings) write_message("warning: " + warning + "\n");
  }
  return result.ok() ? kDone : kCheckFailed;
}

}  // namespace

Command add_run_command(CLI::App& program) {
  const auto words = std::make_shared<RunWords>();
  CLI::App* app = program.add_subcommand("run", "Runs an algorithm under a schedule, and checks and times it.");
  add_request_options(*app, words->request);
  app->add_option("--device", words->device, "auto (a GPU where there is one), cpu, cuda or cuda:N");
  app->add_option("--input", words->inputs, "Q=q.npy, Q=layer.safetensors or all.safetensors; others are random")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  app->add_option("--output", words->outputs, "O=o.npy or results.safetensors")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  app->add_option("--scalar", words->scalars, "scalars that differ from their defaults, such as scale=0.1")
      ->type_name("NAME=X,..")
      ->allow_extra_args(false);
  app->add_option("--seed", words->seed, "of random inputs")->type_name("N");
  app->add_option("--repeat", words->repeat, "launches to time; 0: as many as fit a second, 1 to 10")->type_name("N");
  app->add_option("--threads", words->threads, "of the CPU; 0: all cores")->type_name("N");
  app->add_flag("--check", words->check,
                "compare with the double-precision evaluator; exit code 1 outside the contract");
  app->add_flag(
      "--check-indices", words->check_indices,
      "before the launch, look at every place of each index that reads inputs of integers, however many: pages, "
      "offsets, lengths");
  app->add_flag("--trace", words->trace, "print the tile program after each pass on standard error");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
