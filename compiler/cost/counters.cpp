#include "compiler/cost/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace astatide::cost {
namespace {

constexpr const char* kTime = "gpu__time_duration.sum";
constexpr const char* kRead = "dram__bytes_read.sum";
constexpr const char* kWritten = "dram__bytes_write.sum";
constexpr const char* kL2 = "lts__t_bytes.sum";
constexpr const char* kTensor = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kSpecial = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kConflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";
constexpr std::string_view kStallPrefix = "smsp__average_warps_issue_stalled_";
constexpr std::string_view kStallSuffix = "_per_issue_active.ratio";
constexpr std::size_t kStallsShown = 3;

/// A line of comma-separated values, quotes around those that hold commas.
std::vector<std::string> split_line(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else if (c != '\r')
      out.back() += c;
  }
  return out;
}

/// "1,234.5"; what is no number, such as "n/a", is 0.
double number_of(std::string text) {
  std::erase(text, ',');
  return std::strtod(text.c_str(), nullptr);
}

void take(KernelCounters& kernel, const std::string& metric, const std::string& text) {
  const double value = number_of(text);
  if (metric == "Kernel Name") kernel.name = text;
  if (metric == kTime) kernel.seconds = 1e-9 * value;
  if (metric == kRead) kernel.memory_read = value;
  if (metric == kWritten) kernel.memory_written = value;
  if (metric == kL2) kernel.l2_bytes = value;
  if (metric == kTensor) kernel.tensor = value / 100;
  if (metric == kSpecial) kernel.special = value / 100;
  if (metric == kConflicts) kernel.bank_conflicts = value;
  const std::string_view name = metric;
  if (name.starts_with(kStallPrefix) && name.ends_with(kStallSuffix)) {
    const std::string_view reason =
        name.substr(kStallPrefix.size(), name.size() - kStallPrefix.size() - kStallSuffix.size());
    // A warp that was selected was not stalled; `not_issued` repeats the others.
    if (reason != "selected" && !reason.ends_with("_not_issued")) kernel.stalls.emplace_back(reason, value);
  }
}

}  // namespace

std::string counter_metrics() {
  return fmt::format("{},{},{},{},{},{},{},regex:^{}.*{}$", kTime, kRead, kWritten, kL2, kTensor, kSpecial, kConflicts,
                     kStallPrefix, "_per_issue_active\\.ratio");
}

std::vector<KernelCounters> parse_counters(const std::string& text) {
  std::vector<KernelCounters> out;
  std::vector<std::string> names;
  bool units = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = split_line(line);
    if (names.empty()) {
      if (std::find(fields.begin(), fields.end(), "Kernel Name") != fields.end()) names = fields;
      continue;
    }
    if (!std::exchange(units, true) || fields.size() != names.size()) continue;
    KernelCounters& kernel = out.emplace_back();
    for (std::size_t n = 0; n < names.size(); ++n) take(kernel, names[n], fields[n]);
    std::sort(kernel.stalls.begin(), kernel.stalls.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    if (kernel.stalls.size() > kStallsShown) kernel.stalls.resize(kStallsShown);
  }
  return out;
}

}  // namespace astatide::cost
