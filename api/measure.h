#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/astatide.h"

namespace astatide {

/// A candidate to check and to time, as it goes to the process that does so.
struct MeasureJob {
  std::string algorithm, schedule;  // texts
  std::string against;              // text of the schedule to compare it with; empty: none
  Device device;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> extents, check_extents;
  std::uint64_t seed = 0;
  int rounds = 9;
  int threads = 0;
  std::string cache_directory;
};

struct MeasureAnswer {
  std::string failure;  // "refused", "wrong" or "crash"; empty: measured
  std::string message;
  std::vector<double> samples_ms, against_ms;            // one a round
  int registers = 0, spill_bytes = 0, shared_bytes = 0;  // of the kernel with the most; on GPUs
  std::string method;                                    // how the time was taken
};

/// One line of JSON each, and back. Throw UserError where a line is none.
std::string to_line(const MeasureJob& job);
std::string to_line(const MeasureAnswer& answer);
MeasureJob parse_measure_job(const std::string& line);
MeasureAnswer parse_measure_answer(const std::string& line);

/// Sizes for a check against the evaluator that keep what can go wrong: two tiles and a rest along each axis that some
/// point tiles, two of each group of heads and batch, and the extents that tiles cover whole. `tiles`: the largest tile
/// of each axis; `schedule`: one of those to check.
std::map<std::string, std::int64_t> small_extents(const Algorithm& algorithm, const Schedule& schedule,
                                                  const std::map<std::string, std::int64_t>& extents,
                                                  const std::vector<std::pair<std::string, std::int64_t>>& tiles);

/// Launches an executable; what a test puts in its place may do so wrongly.
using LaunchCandidate = std::function<void(const Executable& executable, const LaunchArguments& arguments)>;

/// Checks and times candidates in this process. Keeps tensors, builds and the evaluator's results from one to the next.
class Measurer {
 public:
  explicit Measurer(LaunchCandidate launch = {});
  ~Measurer();

  /// The candidate runs on the small extents into outputs of its own that hold NaN, and is compared with the
  /// evaluator; then on all extents into others, which hold a number everywhere afterwards. Only then it is timed, in
  /// turn with what it is compared to.
  MeasureAnswer measure(const MeasureJob& job);

  /// Several schedules, texts, in place of the job's own: each is checked in the same way, and its whole outputs are
  /// compared with those of the first that is right. Then all run in each round, in an order by lot that the seed
  /// gives. One that fails takes no part in the rounds.
  std::vector<MeasureAnswer> measure_together(const MeasureJob& job, const std::vector<std::string>& schedules);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace astatide
