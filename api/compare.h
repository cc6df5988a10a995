#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/astatide.h"

namespace ASTATIDE_PUBLIC astatide {

/// A directive that two schedules say differently: {"O.tile", "{i: 128, j: 128}", "{i: 64, j: 64}"}. Empty: not said.
struct DirectiveDifference {
  std::string place, first, second;
};

/// What both schedules say, by place; the order of names does not count.
std::vector<DirectiveDifference> differing_directives(const Schedule& first, const Schedule& second);

/// One line of a comparison. Kernels and tiles are paired by their names; what one of the two lacks has no value.
struct ComparedValue {
  enum class Section : std::uint8_t { storage, traffic, work, time };
  using Value = std::variant<std::monostate, double, std::string>;
  Section section = Section::storage;
  std::string kernel;  // empty: of all kernels
  std::string what;    // "shared memory", "tile K_s", "memory bus"
  std::string unit;    // "bytes", "s", "operations"; empty: a number, or words
  Value first, second;
  bool differs() const { return first != second; }
};
std::string_view name_of(ComparedValue::Section section);

/// Times of rounds in each of which both ran.
struct MeasuredDifference {
  std::string device, method;
  std::string first_failure, second_failure;         // not measured then: what came of the check against the evaluator
  double first_ms = 0, second_ms = 0;                // in the middle
  double ratio = 1;                                  // of the first to the second, round by round, in the middle
  double first_is_faster = 0, second_is_faster = 0;  // confidence of each, 0 to 1
};

struct ScheduleDifference {
  std::vector<DirectiveDifference> directives;
  std::vector<ComparedValue> values;  // those that are the same, too
  std::string loops;                  // unified diff of the tile programs as lowered; empty: they are the same
  std::string source;  // unified diff of the CUDA source, or of LLVM's; empty: the same, or not asked for
  std::optional<MeasuredDifference> measured;
};

struct CompareOptions {
  Target target;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> sizes;  // of every extent
  bool source = false;                        // whether to compare it
  /// Both run there in turn, after their results were compared with the evaluator's on a small problem.
  std::optional<Device> measure_on;
  int rounds = 9;
  std::uint64_t seed = 0;
  EngineOptions engine;
};

/// What differs between two schedules of one algorithm: what they say, and what comes of it. Needs no GPU unless it is
/// asked to measure. Throws UserError where one of them is illegal, with which.
ScheduleDifference compare_schedules(const Algorithm& algorithm, const NamedSchedule& first,
                                     const NamedSchedule& second, const CompareOptions& options);

}  // namespace astatide
