#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "api/check_outputs.h"
#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_data.h"

namespace astatide::tools {
namespace {

/// Of an extent that neither words nor files give and no tile covers whole: enough for several tiles.
constexpr std::int64_t kSmallExtent = 192;

struct SanitizeWords {
  RequestWords request;
  std::string target, seed = "1", seeds = "20", resident = "2", preemptions;
  std::vector<std::string> inputs, scalars;
  bool json = false;
};

struct Sanitized {
  std::string algorithm, schedule, target;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> extents;
  std::optional<std::uint64_t> faulty_seed;
  SimulationReport last;
  std::int64_t runs = 0;
  std::vector<OutputCheck> checks;
  std::vector<std::string> warnings;

  bool ok() const {
    return !last.fault &&
           std::all_of(checks.begin(), checks.end(), [](const OutputCheck& check) { return check.ok(); });
  }
};

/// A simulation is for small problems: sizes that nobody asked for are cut.
std::map<std::string, std::int64_t> small_extents(const Algorithm& algorithm, const HostTensors& inputs,
                                                  const std::vector<std::string>& shapes) {
  std::map<std::string, std::int64_t> named;
  for (const std::string& text : shapes) parse_shape(text, algorithm, named);
  std::map<std::string, std::int64_t> out = choose_extents(algorithm, inputs, shapes);
  if (!inputs.empty()) return out;
  for (auto& [name, value] : out)
    if (!named.contains(name)) value = std::min(value, kSmallExtent);
  return out;
}

bool same_bits(const HostTensors& a, const HostTensors& b) {
  return std::all_of(a.begin(), a.end(),
                     [&](const auto& tensor) { return *tensor.second.data == *b.at(tensor.first).data; });
}

Sanitized compute(const SanitizeWords& words) {
  Sanitized out;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  const std::vector<FileWord> files = parse_file_words("--input", words.inputs, input_names(algorithm));
  const auto first = static_cast<std::uint64_t>(parse_number(words.seed, "--seed", 0, INT64_MAX / 2));
  const auto seeds = static_cast<std::uint64_t>(parse_number(words.seeds, "--seeds", 1, 1'000'000));
  SimulationOptions how;
  how.resident = static_cast<int>(parse_number(words.resident, "--resident", 1, 64));
  if (!words.preemptions.empty())
    how.preemptions = static_cast<int>(parse_number(words.preemptions, "--preemptions", 0, 8));
  std::map<std::string, double> scalars;
  for (const std::string& text : words.scalars) parse_scalars(text, algorithm, scalars);

  const HostTensors read = read_tensors(files, input_names(algorithm), "input", algorithm, out.warnings);
  out.algorithm = algorithm.name;
  out.extents = small_extents(algorithm, read, words.request.shapes);
  out.dtype = !words.request.dtype.empty() ? parse_dtype(words.request.dtype)
                                           : common_type(algorithm, read).value_or(ScalarType::f32);
  DispatchRequest request = request_of(words.request, algorithm, words.target);
  request.dtype = out.dtype;
  request.sizes = out.extents;
  const NamedSchedule chosen = choose_schedule(words.request, algorithm, request);
  out.schedule = chosen.name;
  Engine engine;
  const Device device = Device::sim(words.target.empty() ? chosen.schedule.target : words.target);
  out.target = device.target;
  const Executable executable = engine.build(algorithm, chosen.schedule, {device, out.dtype, out.extents, {}});
  require_tensor_memory(executable, out.extents);
  const HostTensors inputs = prepare_inputs(executable, read, out.extents, first);

  HostTensors reference;
  for (std::uint64_t seed = first; seed < first + (how.preemptions ? 1 : seeds); ++seed) {
    HostTensors outputs = prepare_outputs(executable, out.extents);
    outputs.merge(prepare_updated(algorithm, inputs));
    how.seed = seed;
    out.last = simulate(executable, launch_arguments(inputs, outputs, scalars, out.extents), how);
    out.runs += out.last.runs;
    if (!out.last.fault && !reference.empty() && !same_bits(reference, outputs))
      out.last.fault = {"the results are other bits than those of the first order", "all", "", "", ""};
    if (out.last.fault) {
      out.faulty_seed = seed;
      return out;
    }
    if (reference.empty()) reference = std::move(outputs);
  }
  out.checks = check_outputs(algorithm, out.extents, scalars, inputs, reference, allowance_of(chosen.schedule, device));
  return out;
}

std::string to_text(const Sanitized& result) {
  std::string text = fmt::format("{} with {}, simulated {}, {}, {}\n", result.algorithm, result.schedule, result.target,
                                 name_of(result.dtype), extents_text(result.extents));
  text += fmt::format("  {} orders, {} waits and signals, {} steps in the last\n", result.runs, result.last.waits,
                      result.last.steps);
  if (result.last.fault)
    return text +
           fmt::format("  FOUND in the order of seed {}:\n{}\n", *result.faulty_seed, to_text(*result.last.fault));
  text += "  no race, no deadlock, no wild access\n";
  for (const OutputCheck& check : result.checks)
    text += fmt::format("  {:<10} error {:.3g} of at most {:.3g}: {}\n", check.name, check.max_abs_error, check.limit,
                        check.ok() ? "ok" : "WRONG");
  return text;
}

nlohmann::json to_json(const Sanitized& result) {
  nlohmann::json out = {{"ok", result.ok()},          {"algorithm", result.algorithm},  {"schedule", result.schedule},
                        {"target", result.target},    {"dtype", name_of(result.dtype)}, {"shape", result.extents},
                        {"orders", result.runs},      {"waits", result.last.waits},     {"steps", result.last.steps},
                        {"warnings", result.warnings}};
  if (result.last.fault) {
    const SimulationFault& fault = *result.last.fault;
    out["fault"] = {{"seed", *result.faulty_seed}, {"what", fault.what},           {"kernel", fault.kernel},
                    {"agent", fault.agent},        {"statement", fault.statement}, {"directive", fault.directive}};
  }
  for (const OutputCheck& check : result.checks)
    out["outputs"][check.name] = {{"ok", check.ok()}, {"max_abs_error", check.max_abs_error}, {"limit", check.limit}};
  return out;
}

int report(const Sanitized& result, bool json) {
  if (json) {
    write_output(to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_result(to_text(result), result.warnings);
  }
  return result.ok() ? kDone : kCheckFailed;
}

}  // namespace

Command add_sanitize_command(CLI::App& program) {
  const auto words = std::make_shared<SanitizeWords>();
  CLI::App* app = program.add_subcommand(
      "sanitize",
      "Simulates a GPU's threads in many orders, and looks for races, deadlocks and wild accesses; needs no GPU.");
  add_request_options(*app, words->request);
  app->add_option("--target", words->target, "GPU to simulate, such as sm_90a; else the schedule's own");
  app->add_option("--seeds", words->seeds, "orders by chance")->type_name("N");
  app->add_option("--seed", words->seed, "of the first order, and of random inputs")->type_name("N");
  app->add_option("--preemptions", words->preemptions,
                  "instead, all orders in which what runs goes on as long as it can, but for N turns; at most 2000")
      ->type_name("N");
  app->add_option("--resident", words->resident, "blocks, or clusters, at a time")->type_name("N");
  add_input_options(*app, words->inputs, words->scalars);
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return report(compute(*words), words->json); }};
}

}  // namespace astatide::tools
