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
  LaunchWords launch;
  std::vector<std::string> inputs, scalars;
  std::string seed = "0";
  bool check_indices = false, keep_mask_map = false, trace = false;
};

Result compute(const RunWords& words) {
  Result result;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  const std::vector<FileWord> files = parse_file_words("--input", words.inputs, input_names(algorithm));
  const std::vector<FileWord> destinations =
      parse_file_words("--output", words.launch.outputs, written_names(algorithm));
  result.seed = static_cast<std::uint64_t>(parse_number(words.seed, "--seed", 0, INT64_MAX));
  TimingWish wish = words.launch.timing();
  wish.keep_mask_map = words.keep_mask_map;
  const EngineOptions engine_options = words.launch.engine();
  std::map<std::string, double> scalars;
  for (const std::string& text : words.scalars) parse_scalars(text, algorithm, scalars);
  result.algorithm = algorithm.name;
  // A schedule for the CPU runs nowhere else.
  const bool needs_cpu = !words.request.schedule.empty() && load_schedule(words.request.schedule).target == "cpu";
  result.device = choose_device(needs_cpu && words.launch.device == "auto" ? "cpu" : words.launch.device);

  const HostTensors read = read_tensors(files, input_names(algorithm), "input", algorithm, result.warnings);
  result.random = read.size() < algorithm.inputs.size();
  result.extents = choose_extents(algorithm, read, words.request.shapes);
  result.dtype = !words.request.dtype.empty() ? parse_dtype(words.request.dtype)
                                              : common_type(algorithm, read).value_or(ScalarType::f32);
  Engine engine(engine_options);
  BuildOptions build{result.device.device, result.dtype, result.extents, {}};
  const auto [name, schedule] = words.request.schedule.empty()
                                    ? engine.choose(algorithm, build)
                                    : NamedSchedule{words.request.schedule, load_schedule(words.request.schedule)};
  result.schedule = name;
  if (words.trace)
    build.trace = [](std::string_view stage, const tile::Program& program) {
      write_message(fmt::format("# after {}\n{}\n", stage, tile::print(program)));
    };
  const Executable executable = engine.build(algorithm, schedule, build);
  const HostTensors inputs = result.launch(engine, executable, read, scalars, wish,
                                           words.check_indices ? PlacesChecked::all : PlacesChecked::few);
  result.count(algorithm, executable, inputs);
  if (words.launch.check) result.check(algorithm, scalars, inputs, allowance_of(schedule, result.device.device));
  write_outputs(destinations, result.outputs);
  return result;
}

}  // namespace

Command add_run_command(CLI::App& program) {
  const auto words = std::make_shared<RunWords>();
  CLI::App* app = program.add_subcommand("run", "Runs an algorithm under a schedule, and checks and times it.");
  add_request_options(*app, words->request);
  add_launch_options(*app, words->launch);
  add_input_options(*app, words->inputs, words->scalars);
  app->add_option("--seed", words->seed, "of random inputs")->type_name("N");
  app->add_flag(
      "--check-indices", words->check_indices,
      "before the launch, look at every place of each index that reads inputs of integers, however many: pages, "
      "offsets, lengths");
  app->add_flag("--keep-mask-map", words->keep_mask_map,
                "launches that are timed take the map of masks (mask_map) that the first one has made");
  app->add_flag("--trace", words->trace, "print the tile program after each pass on standard error");
  return {app, [words] { return report_result(compute(*words), words->launch.json); }};
}

}  // namespace astatide::tools
