#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/bench.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// Extents that have one value together, and the values that they go through.
struct ShapeAxis {
  std::vector<std::string> names;
  std::vector<std::int64_t> values;
};

/// "Sq=Sk=512..16384 x2, D=Dv=64|128": axes between commas; a value, values between bars, from..to by a factor (`x2`)
/// or a step (`+512`). Throws UserError at the place of `where`, with what is wrong, for unknown names, ranges that
/// never end, and more than kMostShapes shapes.
std::vector<ShapeAxis> parse_shape_axes(const std::string& text, const Algorithm& algorithm, const std::string& where);
inline constexpr std::size_t kMostShapes = 1024;
/// All shapes, the first axis fastest; `sizes` has the other extents.
std::vector<std::map<std::string, std::int64_t>> shapes_of(const std::vector<ShapeAxis>& axes,
                                                           const std::map<std::string, std::int64_t>& sizes);

/// The shipped schedules that stand for fusions, among those that a target runs: standard, fused_row, flash1, flash2
/// and decode on the CPU; on GPUs with multiply-adds and tensor cores, flash3 by head size.
std::vector<NamedSchedule> frontier_schedules(const Target& target);

struct FrontierOptions {
  Target target;                 // whose cost model is asked
  std::optional<Device> device;  // where times are measured instead
  ScalarType dtype = ScalarType::f32;
  std::vector<ShapeAxis> axes;
  std::map<std::string, std::int64_t> sizes;  // extents that no axis has
  int rounds = 9;
  std::uint64_t seed = 0;
  EngineOptions engine;
  std::vector<std::string> measurer;  // of times that are measured, as in BenchOptions
  std::optional<double> timeout_seconds;
  std::function<void(std::size_t shape)> progress;
};

struct FrontierTime {
  double seconds = 0;
  std::string why_not;  // empty: it is legal
};

struct FrontierPoint {
  std::map<std::string, std::int64_t> extents;
  std::vector<FrontierTime> times;               // by schedule
  std::optional<std::size_t> winner, runner_up;  // among them
  /// Time of the runner-up over that of the winner, from 1 on.
  double ratio = 1;
};

struct FrontierResult {
  std::vector<std::string> schedules;
  std::vector<ShapeAxis> axes;
  std::vector<FrontierPoint> points;  // as shapes_of has them
  std::string machine;                // "H200 SXM", whose times are predicted; "NVIDIA H200", where they are measured
  bool measured = false;
  /// By schedule: at how many shapes it is not legal, by reason; numbers are those of the first shape.
  std::vector<std::map<std::string, std::size_t>> refused;
};

/// Which schedule wins where. Schedules that are not legal for a shape are left out there, and counted by reason.
FrontierResult frontier(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                        const FrontierOptions& options);

}  // namespace astatide
