#include "tools/counters.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/support/diagnostic.h"
#include "tools/child.h"

namespace astatide::tools {
namespace {

/// What the program said that ran under ncu, where it failed: its JSON holds errors.
std::string message_of(const std::string& output) {
  const nlohmann::json json = nlohmann::json::parse(output, nullptr, false);
  if (!json.is_object() || !json.contains("errors") || json["errors"].empty()) return "";
  return "; the run said: " + json["errors"][0].value("message", "");
}

/// The last lines that say something.
std::string end_of(const std::string& text) {
  std::string last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("==ERROR==")) last += (last.empty() ? "" : "; ") + line.substr(10);
  return last;
}

}  // namespace

std::vector<cost::KernelCounters> count_kernels(const std::vector<std::string>& words, std::size_t kernels) {
  const WorkFolder folder;
  const std::string log = folder / "counters.csv";
  std::vector<std::string> command{"ncu",
                                   "--csv",
                                   "--page",
                                   "raw",
                                   "--print-units",
                                   "base",
                                   "--log-file",
                                   log,
                                   "--launch-count",
                                   std::to_string(kernels),
                                   "--metrics",
                                   cost::counter_metrics(),
                                   std::filesystem::read_symlink("/proc/self/exe").string(),
                                   "run"};
  command.insert(command.end(), words.begin(), words.end());
  const auto code = run_child(command, folder / "run.out");
  if (!code || *code == 127)
    throw MachineError("no ncu, which counts what a kernel does",
                       {"NVIDIA Nsight Compute has it; put its folder on PATH"});
  const std::string text = read_file(log);
  std::vector<cost::KernelCounters> out = cost::parse_counters(text);
  if (out.empty()) {
    const std::string said = end_of(text);
    throw MachineError(fmt::format("ncu counted nothing, and ended with code {}{}{}", *code,
                                   said.empty() ? "" : ": " + said, message_of(read_file(folder / "run.out"))),
                       {"ERR_NVGPUCTRPERM: the driver keeps counters for administrators"});
  }
  return out;
}

}  // namespace astatide::tools
