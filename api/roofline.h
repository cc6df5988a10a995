#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/bench.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A schedule at a shape, below what the machine reaches.
struct RooflinePoint {
  std::string schedule;
  std::size_t shape = 0;  // among those of the options
  std::string why_not;    // empty: it has a time
  double seconds = 0;
  double flops = 0;        // of products, as BenchShape has them
  double bytes = 0;        // that cross the bus of device memory, by the cost model
  double least_bytes = 0;  // of inputs and outputs, each once
  double rate() const { return flops / seconds; }
  /// Operations a byte; 0 where nothing comes from device memory.
  double intensity() const { return bytes > 0 ? flops / bytes : 0; }
};

struct RooflineResult {
  std::string machine;  // "H200 SXM", whose times are predicted; "NVIDIA H200", where they are measured
  bool measured = false;
  double rate = 0;                    // operations a second at most
  double bandwidth = 0;               // bytes of device memory a second at most
  std::vector<RooflinePoint> points;  // by shape, then by schedule
};

/// What bounds schedules: their operations, their bytes, and their times, which are measured as by `bench`, or with
/// `predict_for` those that the cost model has for a target. One that is refused, or fails, is a point that says why.
RooflineResult roofline(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                        const BenchOptions& options, const std::optional<Target>& predict_for = {});

}  // namespace astatide
