#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "api/check_outputs.h"
#include "tools/run_data.h"
#include "tools/run_device.h"

namespace CLI {
class App;
}

namespace astatide::tools {

/// Where and how to launch, as it stands on the command line.
struct LaunchWords {
  std::string device = "auto";
  std::vector<std::string> outputs;
  std::string repeat = "0", threads = "0";
  bool check = false, json = false, cold = false, rotate = false;

  TimingWish timing() const;
  EngineOptions engine() const;
};
/// --device, --output, --repeat, --cold, --rotate, --threads, --check and --json.
void add_launch_options(CLI::App& command, LaunchWords& words);

/// What an engine did, for programs and for people.
std::map<std::string, std::uint64_t> counters_by_name(const Counters& counters);
std::string counters_text(const Counters& counters);

/// What one run of the program computed.
struct Result {
  std::string algorithm;
  std::string schedule;  // or what takes its place
  ChosenDevice device;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> extents;
  std::uint64_t seed = 0;
  bool random = false;
  Measured time;
  /// Of products: those that are visible, or those in tiles that are computed where `not_visible` says why.
  double flops = 0;
  std::string not_visible;
  BuildReport report;
  Counters counters;
  std::int64_t workspace_bytes = 0;
  HostTensors outputs;
  std::vector<OutputCheck> checks;
  std::vector<std::string> warnings;

  /// Launches what `engine` built into outputs of its own, and times it. `given` are inputs as files have them. Returns
  /// the inputs that it took.
  HostTensors launch(Engine& engine, const Executable& executable, const HostTensors& given,
                     const std::map<std::string, double>& scalars, const TimingWish& wish,
                     PlacesChecked places = PlacesChecked::few);
  /// Says of which operations the time is.
  void count(const Algorithm& computed, const Executable& executable, const HostTensors& inputs);
  /// Compares the outputs with the double-precision evaluator.
  void check(const Algorithm& computed, const std::map<std::string, double>& scalars, const HostTensors& inputs,
             const Allowance& allowance);
  bool ok() const {
    return std::all_of(checks.begin(), checks.end(), [](const OutputCheck& check) { return check.ok(); });
  }
};

/// Prints a result, as one JSON object or for people, and gives the exit code.
int report_result(const Result& result, bool json);

}  // namespace astatide::tools
