#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "runtime/nvrtc.h"

// The parts of nvrtc.h that need no NVRTC: which architecture to ask for, and the report of ptxas.

namespace astatide::runtime {
namespace {

struct Architecture {
  int number = 0;      // 90
  std::string suffix;  // "", "a" or "f"
};

std::optional<Architecture> parse_architecture(std::string_view target) {
  if (!target.starts_with("sm_")) return std::nullopt;
  target.remove_prefix(3);
  Architecture parsed;
  const auto [end, error] = std::from_chars(target.data(), target.data() + target.size(), parsed.number);
  if (error != std::errc() || parsed.number < 10 || parsed.number > 999) return std::nullopt;
  parsed.suffix = std::string(end, target.data() + target.size());
  if (!parsed.suffix.empty() && parsed.suffix != "a" && parsed.suffix != "f") return std::nullopt;
  // Suffixed targets exist from sm_90a and sm_100f on.
  if ((parsed.suffix == "a" && parsed.number < 90) || (parsed.suffix == "f" && parsed.number < 100))
    return std::nullopt;
  return parsed;
}

std::string list_architectures(const std::vector<int>& supported) {
  std::string text;
  for (int number : supported) text += fmt::format("{}sm_{}", text.empty() ? "" : ", ", number);
  return text;
}

// The number right before `unit` in a line such as "336 bytes stack frame, 444 bytes spill stores"; 0 when it isn't
// there.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t found = line.find(unit);
  if (found == std::string_view::npos || found == 0) return 0;
  std::size_t start = found;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  int value = 0;
  std::from_chars(line.data() + start, line.data() + found, value);
  return value;
}

}  // namespace

ArchitectureChoice choose_architecture(std::string_view target, BinaryKind wanted, const std::vector<int>& supported,
                                       const NvrtcVersion& version) {
  const std::optional<Architecture> asked = parse_architecture(target);
  if (!asked) throw UserError(fmt::format("'{}' is no GPU architecture", target), {"write sm_80, sm_90a or the like"});

  const bool known = std::find(supported.begin(), supported.end(), asked->number) != supported.end();
  if (known) {
    const char* prefix = wanted == BinaryKind::cubin ? "sm_" : "compute_";
    return {wanted, fmt::format("{}{}{}", prefix, asked->number, asked->suffix)};
  }
  const std::string serves = fmt::format("NVRTC {} compiles for {}", version.text(), list_architectures(supported));
  if (supported.empty() || asked->number < supported.front()) {
    throw MachineError(fmt::format("{} is older than NVRTC {} supports", target, version.text()),
                       {serves, "an older toolkit may support it: set ASTATIDE_NVRTC to its libnvrtc"});
  }
  // Code with a suffix is for that architecture alone, and PTX of an older one can't hold its instructions.
  if (!asked->suffix.empty()) {
    throw MachineError(fmt::format("NVRTC {} doesn't know {}", version.text(), target),
                       {serves, "a newer toolkit is needed: set ASTATIDE_NVRTC to its libnvrtc"});
  }
  const auto newer = std::upper_bound(supported.begin(), supported.end(), asked->number);
  return {BinaryKind::ptx, fmt::format("compute_{}", *std::prev(newer))};
}

std::vector<KernelResources> parse_ptxas_report(std::string_view log) {
  std::map<std::string, KernelResources> kernels;
  KernelResources* entry = nullptr;       // of the lines "Used …"
  KernelResources* properties = nullptr;  // of the lines on stack and spills
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);

    constexpr std::string_view kEntry = "Compiling entry function '";
    if (const std::size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      const std::string name(rest.substr(0, rest.find('\'')));
      entry = &kernels[name];
      entry->kernel = name;
    } else if (line.find("Function properties for ") != std::string_view::npos) {
      // The properties of a called function come under its own name; they aren't those of the kernel.
      constexpr std::string_view kProperties = "Function properties for ";
      const std::string name(line.substr(line.find(kProperties) + kProperties.size()));
      const auto found = kernels.find(name);
      properties = found == kernels.end() ? nullptr : &found->second;
    } else if (properties != nullptr && line.find(" bytes stack frame") != std::string_view::npos) {
      properties->stack_bytes = number_before(line, " bytes stack frame");
      properties->spill_store_bytes = number_before(line, " bytes spill stores");
      properties->spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (entry != nullptr && line.find("Used ") != std::string_view::npos) {
      entry->registers = number_before(line, " registers");
      entry->shared_bytes = number_before(line, " bytes smem");
    }
  }
  std::vector<KernelResources> report;
  for (auto& [name, resources] : kernels) report.push_back(std::move(resources));
  return report;
}

}  // namespace astatide::runtime
