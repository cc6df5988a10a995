#include "api/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <set>

#include "tools/bench_result.h"
#include "tools/child.h"
#include "tools/commands.h"
#include "tools/measuring.h"
#include "tools/plot/plot.h"
#include "tools/request.h"
#include "tools/run_device.h"
#include "tools/write_file.h"

namespace astatide::tools {
namespace {

struct BenchWords {
  RequestWords request;  // of which `schedule` stays empty
  MeasuringWords measuring;
  std::string schedules, device = "auto", peers, value, csv, svg;
  bool json = false;
};

BenchValue parse_value(const std::string& word) {
  for (const auto& [name, value] :
       {std::pair{"ms", BenchValue::ms}, {"tflops", BenchValue::tflops}, {"gbs", BenchValue::gbs}})
    if (word == name) return value;
  throw UserError({"--value", 0, 0, {}}, fmt::format("no value '{}'", word), suggestion(word, {"ms", "tflops", "gbs"}));
}

/// Before anything is measured.
void check_colors(const BenchWords& words, const Benched& benched) {
  std::set<std::string> names;
  for (const NamedSchedule& named : benched.schedules) names.insert(named.name);
  for (const Peer& peer : benched.peers) names.insert(peer.name);
  if (!words.svg.empty() && names.size() > plot::kMostSeries)
    throw UserError({"--svg", 0, 0, {}}, fmt::format("{} schedules and peers are named, {} have colours of their own",
                                                     names.size(), plot::kMostSeries));
}

int run(const BenchWords& words) {
  Benched benched;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  benched.algorithm = algorithm.name;
  benched.schedules = load_schedules(words.schedules);
  if (!words.peers.empty()) {
    if (!std::filesystem::exists(words.peers)) throw UserError({words.peers, 0, 0, {}}, "the file can't be opened");
    benched.peers = parse_peers(read_file(words.peers), words.peers, algorithm);
  }
  if (!words.value.empty()) benched.value = parse_value(words.value);
  check_colors(words, benched);
  BenchOptions options;
  for (const std::string& shape : words.request.shapes) options.shapes.push_back(sizes_of(algorithm, {shape}));
  if (options.shapes.empty()) options.shapes.push_back(sizes_of(algorithm, {}));
  if (!words.request.dtype.empty()) options.dtype = parse_dtype(words.request.dtype);
  benched.dtype = options.dtype;
  options.device = choose_device(words.device).device;
  set_measuring(measuring_of(words.measuring, "--repeat", 1), options);
  if (::isatty(STDERR_FILENO) != 0 && !words.json)
    options.progress = [&](std::size_t shape) {
      write_message(
          fmt::format("{} of {}: {}\n", shape + 1, options.shapes.size(), extents_text(options.shapes[shape])));
    };
  benched.result = bench(algorithm, benched.schedules, options);

  if (!words.csv.empty()) write_file(words.csv, bench_csv(benched));
  if (!words.svg.empty()) write_file(words.svg, bench_svg(benched));
  write_output(words.json ? bench_json(benched) : bench_text(benched));
  for (const Peer& peer : benched.peers)
    if (std::none_of(benched.result.shapes.begin(), benched.result.shapes.end(),
                     [&](const BenchShape& shape) { return peer.is_for(shape, options.dtype); }))
      write_message(fmt::format("warning: {} has a figure of {} for a shape or type that is not measured\n",
                                words.peers, peer.name));
  const bool wrong = std::any_of(benched.result.rows.begin(), benched.result.rows.end(),
                                 [](const BenchRow& row) { return !row.failure.empty() && row.failure != "refused"; });
  const bool any = std::any_of(benched.result.rows.begin(), benched.result.rows.end(),
                               [](const BenchRow& row) { return row.failure.empty(); });
  return wrong ? kCheckFailed : any ? kDone : kWrongInput;
}

}  // namespace

Command add_bench_command(CLI::App& program) {
  const auto words = std::make_shared<BenchWords>();
  CLI::App* app = program.add_subcommand("bench", "Measures several schedules in turns, at one shape or more.");
  add_algorithm_options(*app, words->request);
  app->add_option("--schedules", words->schedules, "files or names of shipped ones; ratios are to the first")
      ->type_name("A,B,..")
      ->required();
  app->add_option("--device", words->device, "auto (a GPU where there is one), cpu, cuda or cuda:N");
  add_measuring_options(*app, words->measuring, "--repeat", "rounds, in each of which all schedules run");
  app->add_option("--peers", words->peers, "figures of others: columns name, extents, dtype, and ms, tflops or gbs")
      ->type_name("FILE.csv");
  app->add_option("--value", words->value, "what the picture shows: tflops, ms or gbs");
  app->add_option("--csv", words->csv, "a table to write")->type_name("FILE");
  app->add_option("--svg", words->svg, "a picture to write")->type_name("FILE");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
