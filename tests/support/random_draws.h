// Random algorithms under random schedules, compiled, run and compared with the evaluator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/case_run.h"

namespace astatide::testing {

struct DrawOptions {
  Device device;
  /// Shipped schedules to start from.
  std::vector<std::string> schedules;
  /// Comparisons that are wanted: an algorithm, a schedule, a type and lengths each. Without lengths, kernels.
  int wanted = 0;
  int threads = 1;
  /// Lengths for each kernel that is compiled; none: it is compiled for its own machine alone, by `own_code`.
  int lengths = 3;
  /// Code for the machine that the schedule is written for, which may be another than the device; none is made where
  /// there is no function.
  std::function<void(const tile::Program& program, const std::string& target)> own_code = {};
  /// How to run the test that draws, for messages: test_property "name".
  std::string command;
};

struct DrawCounts {
  int kernels = 0;   // compiled: algorithms under schedules
  int compared = 0;  // runs: kernels with lengths
  int refused_schedules = 0, refused_algorithms = 0, refused_runs = 0;
  std::uint64_t first_seed = 0, seeds = 0;
  /// Kernels by the shipped schedule that theirs started from.
  std::map<std::string, int> kernels_of;
  /// What refusals say, without their numbers, and how often.
  std::map<std::string, int> refusals;
  /// What is wrong, with the seed, the algorithm and the schedule, and the smallest that is wrong in the same way.
  std::vector<std::string> failures;

  std::string summary() const;
};

/// Draws from seed 1 on until as many comparisons as are wanted are made, or from ASTATIDE_SEED on that one alone, or
/// ASTATIDE_DRAWS comparisons in place of those that are wanted. Each algorithm comes with one schedule that is taken
/// for it; those that are refused before must be refused as the user's error.
DrawCounts run_draws(const DrawOptions& options);

/// Prints the counts, and fails the running test with every failure.
void check_draws(const DrawOptions& options);

}  // namespace astatide::testing
