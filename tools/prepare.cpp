#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_device.h"
#include "tools/run_result.h"

namespace astatide::tools {
namespace {

struct PrepareWords {
  RequestWords request;  // each of `shapes` is one to prepare
  std::vector<std::string> files;
  std::string device = "auto", target, threads = "0";
  bool json = false;
};

/// A shape a line; empty lines and what follows # are left out.
std::vector<std::string> read_shapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError({path, 0, 0, {}}, fmt::format("can't be read: {}", std::strerror(errno)));
  std::vector<std::string> shapes;
  for (std::string line; std::getline(file, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (!line.empty()) shapes.push_back(line);
  }
  if (shapes.empty()) throw UserError({path, 0, 0, {}}, "holds no shape", {"a line is B=1,Hq=8,D=128"});
  return shapes;
}

struct Preparation {
  std::string algorithm;
  std::vector<PrepareRequest> requests;
  std::vector<Prepared> prepared;
  Counters counters;
  std::vector<std::string> warnings;
};

Preparation compute(const PrepareWords& words) {
  Preparation made;
  const Algorithm algorithm = load_algorithm(words.request.algorithm);
  made.algorithm = algorithm.name;
  PrepareOptions options;
  options.target = words.target;
  options.threads = static_cast<int>(parse_number(words.threads, "--threads", 0, 1024));
  if (words.target.empty()) options.device = choose_device(words.device).device;
  if (!words.target.empty() && words.device != "auto")
    throw UserError({"--device", 0, 0, {}}, "--target prepares for machines elsewhere, --device for this one",
                    {"one of the two"});
  if (!words.target.empty()) parse_target(words.target);

  std::vector<std::string> shapes = words.request.shapes;
  for (const std::string& path : words.files)
    for (std::string& shape : read_shapes(path)) shapes.push_back(std::move(shape));
  if (shapes.empty()) shapes.emplace_back();
  for (const std::string& shape : shapes) {
    PrepareRequest& request = made.requests.emplace_back();
    request.sizes = sizes_of(algorithm, shape.empty() ? std::vector<std::string>{} : std::vector<std::string>{shape});
    if (!words.request.dtype.empty()) request.dtype = parse_dtype(words.request.dtype);
    if (!words.request.schedule.empty())
      request.schedule = NamedSchedule{words.request.schedule, load_schedule(words.request.schedule)};
  }
  if (!words.json)
    options.progress = [](const PrepareProgress& progress) {
      write_message(fmt::format("[{}/{}] {}: {} in {:.0f} ms\n", progress.done, progress.total, progress.what,
                                progress.cache == "none" ? "compiled" : progress.cache, progress.milliseconds));
    };
  Engine engine;
  made.prepared = engine.prepare(algorithm, made.requests, options);
  made.counters = engine.counters();
  made.warnings = engine.take_warnings();
  return made;
}

nlohmann::json to_json(const Preparation& made) {
  nlohmann::json prepared = nlohmann::json::array();
  for (std::size_t n = 0; n < made.prepared.size(); ++n) {
    const Prepared& one = made.prepared[n];
    prepared.push_back({{"shape", made.requests[n].sizes},
                        {"dtype", name_of(made.requests[n].dtype)},
                        {"schedule", one.schedule},
                        {"target", one.target},
                        {"cache", one.cache},
                        {"lower_ms", one.lower_ms},
                        {"compile_ms", one.compile_ms}});
  }
  return {{"ok", true},
          {"algorithm", made.algorithm},
          {"prepared", prepared},
          {"counters", counters_by_name(made.counters)},
          {"warnings", made.warnings}};
}

int run(const PrepareWords& words) {
  const Preparation made = compute(words);
  if (words.json) {
    write_output(to_json(made).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return kDone;
  }
  write_result(fmt::format("{}: {} shapes, {}\n", made.algorithm, made.requests.size(), counters_text(made.counters)),
               made.warnings);
  return kDone;
}

}  // namespace

Command add_prepare_command(CLI::App& program) {
  const auto words = std::make_shared<PrepareWords>();
  CLI::App* app = program.add_subcommand(
      "prepare", "Compiles ahead, several at once, into the kernel cache; --target needs no GPU.");
  add_request_options(*app, words->request);
  app->get_option("--shape")->description("a shape to prepare for, such as B=2,Hq=8; as often as wanted");
  app->add_option("--shapes", words->files, "a file with a shape a line")->type_name("FILE")->allow_extra_args(false);
  app->add_option("--device", words->device, "of this machine: auto (a GPU where there is one), cpu, cuda or cuda:N");
  app->add_option("--target", words->target, "or machines elsewhere, such as sm_90a");
  app->add_option("--threads", words->threads, "builds at once; 0: all cores")->type_name("N");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
