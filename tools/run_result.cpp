#include "tools/run_result.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/visible_inputs.h"
#include "compiler/explain.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

/// A check that takes longer is announced.
constexpr double kLongCheckSeconds = 30;

nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

std::string caches_text(const Measured& time) {
  switch (time.caches) {
    case Caches::as_left:
      return "";
    case Caches::cold:
      return ", the L2 cache overwritten before each";
    case Caches::rotated:
      return fmt::format(" graphs of {} launches, on copies of the inputs of {} bytes in all", time.launches,
                         time.copied);
  }
  throw InternalError("no such state of caches");
}

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
    if (check.changed > 0) out["changed"] = check.changed;
    if (check.wrong_nonfinite > 0) out["wrong_nonfinite"] = check.wrong_nonfinite;
  }
  nlohmann::json json = {{"ok", result.ok()},
                         {"algorithm", result.algorithm},
                         {"schedule", result.schedule},
                         {"device", result.device.name},
                         {"target", result.report.target},
                         {"dtype", name_of(result.dtype)},
                         {"shape", result.extents},
                         {"time_ms",
                          {{"median", result.time.median_ms},
                           {"min", result.time.min_ms},
                           {"repetitions", result.time.repetitions},
                           {"caches", name_of(result.time.caches)},
                           {"launches", result.time.launches}}},
                         {"outputs", outputs},
                         {"compiles", result.counters.compiles},
                         {"counters", counters_by_name(result.counters)},
                         {"cache", result.report.cache},
                         {"lower_ms", result.report.lower_ms},
                         {"compile_ms", result.report.compile_ms},
                         {"workspace_bytes", result.workspace_bytes},
                         {"warnings", result.warnings}};
  if (result.flops > 0 && result.time.median_ms > 0) {
    json["flops"] = result.flops;
    json["flops_of"] = result.not_visible.empty() ? "visible" : "computed";
    json["tflops"] = result.flops / result.time.median_ms / 1e9;
    if (!result.not_visible.empty()) json["not_visible"] = result.not_visible;
  }
  if (!result.device.model.empty()) json["device_name"] = result.device.model;
  if (result.random) json["seed"] = result.seed;
  return json;
}

std::string to_text(const Result& result) {
  std::string text = fmt::format("{} with {} on {}{}, {}, {}\n", result.algorithm, result.schedule, result.device.name,
                                 result.device.model.empty() ? "" : " (" + result.device.model + ")",
                                 name_of(result.dtype), extents_text(result.extents));
  if (result.random) text += fmt::format("  inputs     normal, --seed {}\n", result.seed);
  text += fmt::format("  time       {:.4f} ms median, {:.4f} ms least of {}{}\n", result.time.median_ms,
                      result.time.min_ms, result.time.repetitions, caches_text(result.time));
  if (result.flops > 0 && result.time.median_ms > 0)
    text += fmt::format(
        "  rate       {:.4g} TFLOP/s of {:.4g} operations in products, {}\n",
        result.flops / result.time.median_ms / 1e9, result.flops,
        result.not_visible.empty() ? "those that no mask hides" : "of tiles that are computed: " + result.not_visible);
  text += fmt::format("  compiled   in {:.1f} ms, source in {:.1f} ms, cache: {}\n", result.report.compile_ms,
                      result.report.lower_ms, result.report.cache);
  text += fmt::format("  counters   {}\n", counters_text(result.counters));
  if (result.workspace_bytes > 0) text += fmt::format("  scratch    {} bytes\n", result.workspace_bytes);
  for (const OutputCheck& check : result.checks) {
    text += fmt::format("  {:<10} error {:.3g} of at most {:.3g}, relative {:.3g}, plain f32 {:.3g}: {}\n", check.name,
                        check.max_abs_error, check.limit, check.relative_error, check.plain_error,
                        check.ok() ? "ok" : "WRONG");
    if (check.wrong_nonfinite > 0)
      text += fmt::format("  {:<10} {} elements are infinite or NaN where they should not be, or the reverse\n", "",
                          check.wrong_nonfinite);
    if (check.changed > 0)
      text += fmt::format("  {:<10} {} elements that no update stores have changed\n", "", check.changed);
  }
  return text;
}

}  // namespace

std::map<std::string, std::uint64_t> counters_by_name(const Counters& counters) {
  return {{"compiles", counters.compiles},
          {"disk_hits", counters.disk_hits},
          {"memory_hits", counters.memory_hits},
          {"launches", counters.launches}};
}

std::string counters_text(const Counters& counters) {
  return fmt::format("{} compiled, {} from disk, {} from memory, {} launches", counters.compiles, counters.disk_hits,
                     counters.memory_hits, counters.launches);
}

TimingWish LaunchWords::timing() const {
  TimingWish wish;
  wish.repetitions = static_cast<int>(parse_number(repeat, "--repeat", 0, 1'000'000));
  if (cold && rotate)
    throw UserError({"--rotate", 0, 0, {}}, "--cold clears the cache that --rotate leaves as launches fill it",
                    {"one of them"});
  wish.caches = cold ? Caches::cold : rotate ? Caches::rotated : Caches::as_left;
  return wish;
}

EngineOptions LaunchWords::engine() const {
  EngineOptions options;
  options.threads = static_cast<int>(parse_number(threads, "--threads", 0, 4096));
  return options;
}

void add_launch_options(CLI::App& command, LaunchWords& words) {
  command.add_option("--device", words.device,
                     "auto (a GPU where there is one), cpu, cuda, cuda:N, or sim: a GPU simulated thread by thread");
  command.add_option("--output", words.outputs, "O=o.npy or results.safetensors")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command.add_option("--repeat", words.repeat, "launches to time; 0: as many as fit a second, 1 to 10")->type_name("N");
  command.add_flag(
      "--cold", words.cold,
      "on a GPU: overwrite the L2 cache before each launch that is timed, as triton.testing.do_bench does");
  command.add_flag("--rotate", words.rotate,
                   "on a GPU: time a graph of launches that take copies of the inputs in turn, more than the L2 cache "
                   "holds; a sample is the mean of its launches");
  command.add_option("--threads", words.threads, "of the CPU; 0: all cores")->type_name("N");
  command.add_flag("--check", words.check,
                   "compare with the double-precision evaluator; exit code 1 outside the contract");
  command.add_flag("--json", words.json, "one JSON object on standard output");
}

HostTensors Result::launch(Engine& engine, const Executable& executable, const HostTensors& given,
                           const std::map<std::string, double>& scalars, const TimingWish& wish, PlacesChecked places) {
  report = executable.report();
  workspace_bytes = executable.workspace_bytes(extents);
  require_tensor_memory(executable, extents);
  HostTensors inputs = prepare_inputs(executable, given, extents, seed);
  check_indices(executable.algorithm(), extents, inputs, places);
  outputs = prepare_outputs(executable, extents);
  outputs.merge(prepare_updated(executable.algorithm(), inputs));
  time = run_on_device(executable, device.device, inputs, outputs, scalars, extents, wish);
  if (time.launches > 1 && time.copied < 2 * time.cache_bytes)
    warnings.push_back(
        fmt::format("the copies of inputs that launches take in turn hold {} bytes, and the L2 cache {}: it may hold "
                    "what they read",
                    time.copied, time.cache_bytes));
  counters = engine.counters();
  for (std::string& warning : engine.take_warnings()) warnings.push_back(std::move(warning));
  return inputs;
}

void Result::count(const Algorithm& computed, const Executable& executable, const HostTensors& inputs) {
  const VisibleWork work = visible_work(computed, extents, inputs);
  not_visible = work.why_not;
  if (work.visible) {
    flops = *work.visible;
    return;
  }
  const tile::Program& program = executable.program();
  flops = product_flops(statistics_of(program, cost::launch_extents(program, target_of(device.device), extents)));
}

void Result::check(const Algorithm& computed, const std::map<std::string, double>& scalars, const HostTensors& inputs,
                   const Allowance& allowance) {
  const double seconds = estimate_check_seconds(computed, extents);
  if (seconds > kLongCheckSeconds)
    write_message(fmt::format("warning: the check in double precision takes about {:.0f} seconds\n", seconds));
  checks = check_outputs(computed, extents, scalars, inputs, outputs, allowance);
}

int report_result(const Result& result, bool json) {
  if (json) {
    write_output(to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_result(to_text(result), result.warnings);
  }
  return result.ok() ? kDone : kCheckFailed;
}

}  // namespace astatide::tools
