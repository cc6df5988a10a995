#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "api/check_outputs.h"
#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_data.h"
#include "tools/run_result.h"

namespace astatide::tools {
namespace {

struct RunWords {
  RequestWords request;
  std::string device = "auto";
  std::vector<std::string> inputs, outputs, scalars;
  std::string seed = "0", repeat = "0", threads = "0";
  bool check = false, check_indices = false, json = false, trace = false;
};

std::vector<FileWord> output_files(const Algorithm& algorithm, const std::vector<std::string>& words) {
  return parse_file_words("--output", words, algorithm.outputs);
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

  const HostTensors read = read_tensors(files, input_names(algorithm), "input", algorithm, result.warnings);
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
  require_tensor_memory(executable, result.extents);
  const HostTensors inputs = prepare_inputs(executable, read, result.extents, result.seed);
  check_indices(algorithm, result.extents, inputs, words.check_indices ? PlacesChecked::all : PlacesChecked::few);
  result.outputs = prepare_outputs(executable, result.extents);

  result.time =
      run_on_device(executable, result.device.device, inputs, result.outputs, scalars, result.extents, repetitions);
  result.take_counts(engine);
  if (words.check) result.check(algorithm, scalars, inputs, computes_in_tf32(schedule, result.device.device));
  write_outputs(destinations, result.outputs);
  return result;
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
  return {app, [words] { return report_result(compute(*words), words->json); }};
}

}  // namespace astatide::tools
