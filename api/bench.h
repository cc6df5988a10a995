#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

inline constexpr double kBenchTimeoutSeconds = 60;

struct BenchOptions {
  Device device;
  ScalarType dtype = ScalarType::f32;
  std::vector<std::map<std::string, std::int64_t>> shapes;  // every extent of each

  int rounds = 9;          // in each of which all schedules run
  std::uint64_t seed = 0;  // of inputs, and of the order in a round
  EngineOptions engine;

  /// The program that measures, with its first words: {"/usr/bin/astatide", "measure"}. It runs as a child process, so
  /// that a schedule that faults or hangs costs its own row. Empty: this process measures, and has to last.
  std::vector<std::string> measurer;
  /// Of a measurer: for what it does at a time with one schedule, which it builds, checks and times; else
  /// kBenchTimeoutSeconds.
  std::optional<double> timeout_seconds;

  /// Called before each shape, with its number.
  std::function<void(std::size_t shape)> progress;
};

/// What became of a schedule at a shape.
struct BenchRow {
  std::string schedule;
  std::size_t shape = 0;
  std::string failure;  // "refused", "wrong", "crash" or "timeout"; empty: it was measured
  std::string message;  // of a failure
  double median_ms = 0, least_ms = 0;
  std::vector<double> samples_ms;  // one a round
  /// Of the rounds with the first schedule that was measured at the shape: time over its time, in the middle, and the
  /// confidence that it is below 1.
  double ratio = 1, confidence = 0;
  std::optional<double> predicted_ms;  // by the cost model, on the device's target
  int registers = 0, spill_bytes = 0;  // of the kernel with the most; on GPUs
};

/// What one launch at a shape is for, whatever computes it.
struct BenchShape {
  std::map<std::string, std::int64_t> extents;
  /// Of products, where masks let a term through; where that is not known, `not_visible` says why, and these are of the
  /// tiles that the schedule computes whose tiles follow the mask most closely.
  double flops = 0;
  std::string not_visible;
  double bytes = 0;  // inputs and outputs, each once
  /// What the evaluator was compared with; the whole problem where that is small.
  std::map<std::string, std::int64_t> check_extents;
  std::optional<std::size_t> first;  // row that ratios are of
};

struct BenchResult {
  std::vector<BenchShape> shapes;
  std::vector<BenchRow> rows;  // by shape, then by schedule
  std::string device, driver, method;
};

/// Times schedules in turns: at each shape all of them in every round, in an order by lot. Each is compared with the
/// double-precision evaluator at extents that it can take, and with the first at the whole shape, before its time
/// counts. A schedule that is refused, wrong, faults or hangs is a row that says why; the others are measured without
/// it. Throws UserError where the options say nothing to measure.
BenchResult bench(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules, const BenchOptions& options);

}  // namespace astatide
