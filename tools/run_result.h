#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "api/check_outputs.h"
#include "tools/run_data.h"
#include "tools/run_device.h"

namespace astatide::tools {

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
  BuildReport report;
  Counters counters;
  std::int64_t workspace_bytes = 0;
  HostTensors outputs;
  std::vector<OutputCheck> checks;
  std::vector<std::string> warnings;

  /// Of the engine that built: how often it compiled, and what it warned of.
  void take_counts(Engine& engine);
  /// Compares the outputs with the double-precision evaluator.
  void check(const Algorithm& computed, const std::map<std::string, double>& scalars, const HostTensors& inputs,
             bool tf32);
  bool ok() const {
    return std::all_of(checks.begin(), checks.end(), [](const OutputCheck& check) { return check.ok(); });
  }
};

/// Prints a result, as one JSON object or for people, and gives the exit code.
int report_result(const Result& result, bool json);

}  // namespace astatide::tools
