#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/astatide.h"

namespace astatide {

/// A candidate to check and to time, as it goes to the process that does so.
struct MeasureJob {
  std::string algorithm, schedule;    // texts
  std::string against;                // text of the schedule to compare it with; empty: none
  std::vector<std::string> together;  // texts of schedules to time in the same rounds, in place of both
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

/// What comes before the answers to a job of several schedules: the number of the one that is built, checked or timed
/// once from now on.
struct MeasureTurn {
  std::size_t schedule = 0;
};

/// One line of JSON each, and back. Throw UserError where a line is none. A job is answered by a line; one of several
/// schedules by lines of turns, then a line for each of them, or one that says "crash": of the schedule whose turn was
/// the last, and of none else.
std::string to_line(const MeasureJob& job);
std::string to_line(const MeasureTurn& turn);
std::string to_line(const MeasureAnswer& answer);
MeasureJob parse_measure_job(const std::string& line);
std::variant<MeasureTurn, MeasureAnswer> parse_measure_line(const std::string& line);

/// A job for an algorithm, without schedules and extents for a check.
MeasureJob measure_job(const Algorithm& algorithm, const Device& device, ScalarType dtype,
                       const std::map<std::string, std::int64_t>& extents, const EngineOptions& engine);

/// Why schedules of an algorithm can't be measured with random inputs at these extents. `done`: what is to be done with
/// it, "tuned".
void check_measurable(const Algorithm& algorithm, const Device& device,
                      const std::vector<std::map<std::string, std::int64_t>>& shapes, const char* done,
                      const char* instead, Diagnostics& errors);

/// Sizes for a check against the evaluator that keep what can go wrong: two tiles and a rest along each axis that some
/// point tiles, two of each group of heads and batch, and the extents that tiles cover whole. `tiles`: the largest tile
/// of each axis; `schedule`: one of those to check.
std::map<std::string, std::int64_t> small_extents(const Algorithm& algorithm, const Schedule& schedule,
                                                  const std::map<std::string, std::int64_t>& extents,
                                                  const std::vector<std::pair<std::string, std::int64_t>>& tiles);

/// Launches an executable; what a test puts in its place may do so wrongly.
using LaunchCandidate = std::function<void(const Executable& executable, const LaunchArguments& arguments)>;

/// Answers to a job of several schedules.
struct MeasuredTogether {
  std::vector<MeasureAnswer> answers;  // in their order; where one broke what it ran in, of that one alone
  std::optional<std::size_t> broken;   // its number
};

/// Answers of all schedules of a job, from one who measures them in the same rounds. The one that breaks what it ran in
/// has that answer, and the others are measured anew without it: their rounds stay common.
std::vector<MeasureAnswer> measure_without_broken(MeasureJob job,
                                                  const std::function<MeasuredTogether(const MeasureJob&)>& measure);

/// Checks and times candidates in this process. Keeps tensors, builds and the evaluator's results from one to the next.
class Measurer {
 public:
  explicit Measurer(LaunchCandidate launch = {});
  ~Measurer();

  /// The candidate runs on the small extents into outputs of its own that hold NaN, and is compared with the
  /// evaluator; then on all extents into others, which hold a number everywhere afterwards. Only then it is timed, in
  /// turn with what it is compared to.
  MeasureAnswer measure(const MeasureJob& job);

  /// The schedules that the job has together: each is checked in the same way, and its whole outputs are compared with
  /// those of the first that is right. Then all run in each round, in an order by lot that the seed gives. One that is
  /// refused or wrong takes no part in the rounds; a fault of ours or of the device ends them. `begins` hears of turns.
  MeasuredTogether measure_together(const MeasureJob& job, const std::function<void(MeasureTurn)>& begins = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace astatide
