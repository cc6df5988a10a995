#include "tools/explain_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace astatide::tools {

namespace {

tile::Traffic sum_of(const cost::MemoryTraffic& memory) {
  tile::Traffic sum;
  for (const auto& [tensor, traffic] : memory) sum.read += traffic.read, sum.written += traffic.written;
  return sum;
}

}  // namespace

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string count_text(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (count >= 1000 && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  return fmt::format("{:.4g}{}{}", count, unit > 0 ? " " : "", kUnits[unit]);
}

std::string time_text(double seconds) { return fmt::format("{:.4g} ms", 1e3 * seconds); }

std::string machine_text(const cost::Machine& machine) {
  return fmt::format(
      "machine {}: {}FLOP/s in products of 16 bits, {}FLOP/s in f32, {}B/s of memory, {}B/s of L2\n"
      "  ridge          {:.4g} operations a byte: a kernel with less waits for memory\n",
      machine.product, count_text(machine.tensor_rate()), count_text(machine.flops()), count_text(machine.memory_rate),
      count_text(machine.l2_rate), machine.ridge());
}

std::string kernel_cost_text(const cost::KernelCost& kernel, const cost::KernelCounters* counted) {
  const auto percent = [](double share) { return 100 * share; };
  std::string text = fmt::format("  {:<14} {}: {} binds", "predicted", time_text(kernel.seconds), kernel.binds);
  text += fmt::format(
      "\n    busy         tensor {:.0f} %, special functions {:.0f} %, instructions {:.0f} %, shared memory {:.0f} % "
      "(bank "
      "conflicts {:.0f} % of it), L2 {:.0f} %, memory {:.0f} %\n",
      percent(kernel.busy.tensor), percent(kernel.busy.special), percent(kernel.busy.issue),
      percent(kernel.busy.shared), percent(kernel.conflicts), percent(kernel.busy.l2), percent(kernel.busy.memory));
  const auto [read, written] = sum_of(kernel.memory);
  text += fmt::format("    memory       {} read, {} written: {:.4g} operations a byte; L2 {}\n", bytes_text(read),
                      bytes_text(written), kernel.intensity(), bytes_text(kernel.l2_bytes));
  if (kernel.occupancy.blocks > 0)
    text += fmt::format(
        "    blocks       {} an SM ({}), {} registers a thread{}; {:.3g} waves, {:.0f} % lost at their end\n",
        kernel.occupancy.blocks, kernel.occupancy.limited_by, kernel.registers.asked,
        kernel.registers.spilled > 0 ? fmt::format(", {} spilled", kernel.registers.spilled) : "", kernel.waves,
        percent(kernel.tail));
  if (!counted) return text;
  const auto [read_alone, written_alone] = sum_of(kernel.alone);
  text += fmt::format("    by itself    {} read, {} written, from an empty L2 until the kernel ends, as ncu counts\n",
                      bytes_text(read_alone), bytes_text(written_alone));
  text += fmt::format(
      "  {:<14} {}: tensor {:.0f} %, special functions {:.0f} %, memory {} read, {} written, L2 {}, {} clocks of bank "
      "conflicts\n",
      "counted", time_text(counted->seconds), percent(counted->tensor), percent(counted->special),
      bytes_text(counted->memory_read), bytes_text(counted->memory_written), bytes_text(counted->l2_bytes),
      count_text(counted->bank_conflicts));
  for (const auto& [reason, clocks] : counted->stalls)
    text += fmt::format("    stalled      {} {:.2f} clocks an instruction\n", reason, clocks);
  return text;
}

std::string cost_text(const cost::Cost& cost, const std::optional<MeasuredCost>& measured) {
  std::string text = fmt::format("predicted: {}, {} over the memory bus\n", time_text(cost.seconds()),
                                 bytes_text(cost.memory_bytes()));
  if (measured)
    text += fmt::format("measured: {} median, {} least of {} on {}: the prediction is off by {:+.1f} %\n",
                        time_text(1e-3 * measured->time.median_ms), time_text(1e-3 * measured->time.min_ms),
                        measured->time.repetitions, measured->device,
                        100 * (1e3 * cost.seconds() / measured->time.median_ms - 1));
  return text;
}

std::string cost_json(const cost::Cost& cost, const cost::Machine& machine,
                      const std::optional<MeasuredCost>& measured) {
  nlohmann::json json = {{"machine", machine.product},
                         {"ridge", machine.ridge()},
                         {"ms", 1e3 * cost.seconds()},
                         {"memory_bytes", cost.memory_bytes()},
                         {"kernels", nlohmann::json::array()}};
  for (const cost::KernelCost& kernel : cost.kernels) {
    nlohmann::json memory = nlohmann::json::object();
    for (const auto& [tensor, traffic] : kernel.memory)
      memory[tensor] = {{"read", traffic.read}, {"written", traffic.written}};
    const tile::Traffic alone = sum_of(kernel.alone);
    json["kernels"].push_back({{"name", kernel.name},
                               {"ms", 1e3 * kernel.seconds},
                               {"binds", kernel.binds},
                               {"intensity", kernel.intensity()},
                               {"memory_bytes", kernel.memory_bytes()},
                               {"memory", memory},
                               {"memory_read_alone", alone.read},
                               {"memory_written_alone", alone.written},
                               {"l2_bytes", kernel.l2_bytes},
                               {"shared_bytes", kernel.shared_bytes},
                               {"bank_conflicts", kernel.conflicts},
                               {"clock_hz", kernel.clock},
                               {"launch_ms", 1e3 * kernel.launch},
                               {"blocks_per_sm", kernel.occupancy.blocks},
                               {"limited_by", kernel.occupancy.limited_by},
                               {"registers", kernel.registers.asked},
                               {"registers_spilled", kernel.registers.spilled},
                               {"waves", kernel.waves},
                               {"tail", kernel.tail},
                               {"busy",
                                {{"tensor", kernel.busy.tensor},
                                 {"special", kernel.busy.special},
                                 {"instructions", kernel.busy.issue},
                                 {"shared", kernel.busy.shared},
                                 {"l2", kernel.busy.l2},
                                 {"memory", kernel.busy.memory}}}});
  }
  if (!measured) return json.dump();
  json["measured"] = {{"device", measured->device},
                      {"median_ms", measured->time.median_ms},
                      {"min_ms", measured->time.min_ms},
                      {"error", 1e3 * cost.seconds() / measured->time.median_ms - 1}};
  for (const cost::KernelCounters& kernel : measured->counters) {
    nlohmann::json stalls = nlohmann::json::object();
    for (const auto& [reason, clocks] : kernel.stalls) stalls[reason] = clocks;
    json["counters"].push_back({{"name", kernel.name},
                                {"ms", 1e3 * kernel.seconds},
                                {"memory_read", kernel.memory_read},
                                {"memory_written", kernel.memory_written},
                                {"l2_bytes", kernel.l2_bytes},
                                {"tensor", kernel.tensor},
                                {"special", kernel.special},
                                {"bank_conflicts", kernel.bank_conflicts},
                                {"stalls", stalls}});
  }
  return json.dump();
}

}  // namespace astatide::tools
