#include "api/export.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/algorithm/names.h"
#include "runtime/environment.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

struct ExportWords {
  RequestWords request;
  std::vector<std::string> targets;
  std::string output;
  std::string name;
  bool json = false;
};

ExportRequest read_request(const ExportWords& words) {
  ExportRequest request;
  request.algorithm = load_algorithm(words.request.algorithm);
  // One schedule for all targets: without a name the one that serves the first of them.
  const DispatchRequest wanted =
      request_of(words.request, request.algorithm, words.targets.empty() ? "" : words.targets.front());
  NamedSchedule chosen = choose_schedule(words.request, request.algorithm, wanted);
  request.schedule_name = std::move(chosen.name);
  request.schedule = std::move(chosen.schedule);
  request.sizes = wanted.sizes;
  request.dtype = wanted.dtype;
  request.name = words.name;
  for (const std::string& target : words.targets) request.targets.push_back(parse_target(target));
  if (request.targets.empty()) request.targets.push_back(parse_target(request.schedule.target));
  return request;
}

void write_files(const std::filesystem::path& folder, const std::vector<ExportedFile>& files) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw MachineError(fmt::format("{} can't be made: {}", folder.string(), error.message()));
  for (const ExportedFile& file : files) {
    const std::filesystem::path path = folder / file.name;
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(file.bytes.data(), static_cast<std::streamsize>(file.bytes.size()));
    out.close();
    if (!out) throw MachineError(fmt::format("{} can't be written", path.string()));
  }
}

int run(const ExportWords& words) {
  const ExportRequest request = read_request(words);
  runtime::KernelCache cache(runtime::DiskCache::from_environment(runtime::read_environment()));
  const std::vector<ExportedFile> files = export_kernels(request, cache);
  write_files(words.output, files);
  const std::vector<std::string> warnings = cache.disk().take_warnings();
  if (words.json) {
    nlohmann::json json = {{"ok", true}, {"files", nlohmann::json::array()}, {"warnings", warnings}};
    for (const ExportedFile& file : files)
      json["files"].push_back(
          {{"path", (std::filesystem::path(words.output) / file.name).string()}, {"bytes", file.bytes.size()}});
    write_output(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return kDone;
  }
  std::string text;
  for (const ExportedFile& file : files)
    text +=
        fmt::format("{:>9} bytes  {}\n", file.bytes.size(), (std::filesystem::path(words.output) / file.name).string());
  write_output(text);
  for (const std::string& warning : warnings) write_message("warning: " + warning + "\n");
  return kDone;
}

}  // namespace

Command add_export_command(CLI::App& program) {
  const auto words = std::make_shared<ExportWords>();
  CLI::App* app = program.add_subcommand(
      "export", "Writes compiled kernels with a C header and a C stub that launches them; needs NVRTC, no GPU.");
  add_request_options(*app, words->request);
  app->add_option("--target", words->targets,
                  "GPU to compile for, such as sm_90a, more than once for several; else the schedule's own")
      ->type_name("TARGET")
      ->allow_extra_args(false);
  app->add_option("--output", words->output, "folder for the files, made where it is missing")
      ->type_name("DIR")
      ->required();
  app->add_option("--name", words->name, "what files and functions begin with; else the algorithm's name");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
