#include "api/frontier.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "tools/commands.h"
#include "tools/frontier_result.h"
#include "tools/measuring.h"
#include "tools/plot/plot.h"
#include "tools/request.h"
#include "tools/run_device.h"
#include "tools/write_file.h"

namespace astatide::tools {
namespace {

struct FrontierWords {
  RequestWords request;  // of which `schedule` stays empty
  MeasuringWords measuring;
  std::string schedules, shapes, target, device, svg;
  bool model = false, json = false;
};

/// Where times come from: a device where one is named or a GPU is there, else the model.
void choose_machine(const FrontierWords& words, FrontierOptions& options) {
  const bool named = !words.device.empty();
  if (named && (words.model || !words.target.empty()))
    throw UserError({"--device", 0, 0, {}}, "times are measured on a device, or predicted by --model and --target",
                    {"one of the two"});
  if (named) {
    options.device = choose_device(words.device).device;
  } else if (!words.model && words.target.empty()) {
    // Without a GPU: the model of the one that most schedules are for.
    options.device = find_gpu();
  }
  options.target =
      options.device ? target_of(*options.device) : parse_target(words.target.empty() ? "sm_90a" : words.target);
}

int run(const FrontierWords& words) {
  Frontiers frontiers;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  frontiers.algorithm = algorithm.name;
  FrontierOptions options;
  options.axes = parse_shape_axes(words.shapes, algorithm, "--shapes");
  options.sizes = sizes_of(algorithm, words.request.shapes);
  // Tensor cores take types of 16 bits, and most of the schedules are for those.
  options.dtype = words.request.dtype.empty() ? ScalarType::f16 : parse_dtype(words.request.dtype);
  frontiers.dtype = options.dtype;
  choose_machine(words, options);
  set_measuring(measuring_of(words.measuring, "--repeat", 1), options);
  const std::vector<NamedSchedule> schedules =
      words.schedules.empty() ? frontier_schedules(options.target) : load_schedules(words.schedules);
  if (!words.svg.empty() && schedules.size() > plot::kMostSeries)
    throw UserError({"--svg", 0, 0, {}}, fmt::format("{} schedules are named, {} have colours of their own",
                                                     schedules.size(), plot::kMostSeries));
  if (::isatty(STDERR_FILENO) != 0 && !words.json)
    options.progress = [](std::size_t shape) { write_message(fmt::format("\rshape {}\x1b[K", shape + 1)); };
  frontiers.result = frontier(algorithm, schedules, options);
  if (options.progress) write_message("\n");
  if (!words.svg.empty()) write_file(words.svg, frontier_svg(frontiers));
  write_output(words.json ? frontier_json(frontiers) : frontier_text(frontiers));
  const bool any = std::any_of(frontiers.result.points.begin(), frontiers.result.points.end(),
                               [](const FrontierPoint& point) { return point.winner.has_value(); });
  return any ? kDone : kWrongInput;
}

}  // namespace

Command add_frontier_command(CLI::App& program) {
  const auto words = std::make_shared<FrontierWords>();
  CLI::App* app = program.add_subcommand(
      "frontier",
      "Which schedule is fastest where, over lengths and head sizes. Needs no GPU: the cost model answers.");
  add_algorithm_options(*app, words->request);
  app->add_option("--shapes", words->shapes, "axes to go along, such as \"Sq=Sk=512..16384 x2, D=Dv=64|128\"")
      ->type_name("AXES")
      ->required();
  app->add_option("--schedules", words->schedules, "files or names of shipped ones; else one for each known fusion")
      ->type_name("A,B,..");
  app->add_flag("--model", words->model, "predicts also where there is a GPU");
  app->add_option("--target", words->target, "machine to predict for; else sm_90a");
  app->add_option("--device", words->device, "measures there: cpu, cuda or cuda:N; else the GPU that is there");
  add_measuring_options(*app, words->measuring, "--repeat", "rounds to measure, in each of which all schedules run");
  app->add_option("--svg", words->svg, "a picture to write")->type_name("FILE");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
