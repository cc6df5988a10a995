#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "compiler/support/visibility.h"
#include "compiler/tune/rank.h"
#include "compiler/tune/search.h"
#include "compiler/tune/space.h"

namespace ASTATIDE_PUBLIC astatide {

/// A file, or the name of a shipped space ("sm90_flash3"). Throws UserError with near names.
ScheduleSpace load_space(const std::string& path_or_name);
std::vector<std::string> shipped_spaces();

/// What became of one point.
struct TunedPoint {
  SpacePoint point;
  std::string what;     // "O.tile.i=128, ring=two"
  std::string failure;  // "crash", "timeout", "wrong", "refused"; empty: it was measured
  std::string message;  // of a failure
  double predicted = 0;
  double median_ms = 0, least_ms = 0, most_ms = 0;
  /// Of the paired rounds with the best so far: time over its time, in the middle; 1 for the first.
  double ratio = 1;
  /// That it is faster than the best so far was, as far as the rounds show.
  double confidence = 0;
  bool better = false;                                   // it took its place
  int registers = 0, spill_bytes = 0, shared_bytes = 0;  // of the kernel with the most; on GPUs
  bool resumed = false;                                  // from the journal
};

struct TuneProgress {
  std::size_t measured = 0, failed = 0, most = 0;  // most 0: no limit
  double seconds = 0;
  const TunedPoint* last = nullptr;
  const TunedPoint* best = nullptr;  // none yet
};

struct TuneOptions {
  Device device;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> sizes;  // every extent

  SearchKind search = SearchKind::model;
  std::uint64_t seed = 0;
  std::size_t points = 64;  // measured at most, failures included; 0: as many as there are
  double seconds = 0;       // 0: as long as it takes
  PredictSeconds predict = modelled_seconds;

  /// The program that measures, with its first words: {"/usr/bin/astatide", "measure"}. It runs as a child process, so
  /// that a candidate that crashes or hangs takes nothing with it.
  std::vector<std::string> measurer;
  double timeout_seconds = 60;  // of one candidate
  int rounds = 9;               // pairs of a candidate and the best so far
  int threads = 0;              // that compile ahead; 0: as many as the process has processors
  EngineOptions engine;

  /// A file with a line for each point; empty: none.
  std::string journal;
  /// Takes what the journal says, as if it had just been measured. Without it a journal of a search that did not end is
  /// no file to overwrite.
  bool resume = false;

  /// Asked between candidates; true ends the search, which keeps what it found.
  std::function<bool()> stop;
  std::function<void(const TuneProgress&)> progress;
};

struct TuneResult {
  Schedule best;                   // its name is the space's
  std::vector<TunedPoint> points;  // in the order in which they were measured
  std::size_t winner = 0;          // among them
  std::optional<std::size_t> runner_up;
  /// Time of the winner over that of the runner-up in a last paired run, and how sure it is that it is below 1.
  double ratio = 1, confidence = 0;
  Search::Counts counts;
  std::map<std::string, std::uint64_t> reasons;  // why points were left out
  bool interrupted = false;
  double seconds = 0;
  std::string device, driver, method;  // "NVIDIA H200", "12.8", "launches one after the other, .."
  std::vector<std::string> warnings;
};

/// Searches a space for the schedule that is fastest for these sizes on this device. Candidates that can't be legal are
/// left out by the checks of the compiler; what is left is compiled ahead, run on a small problem and compared with the
/// double-precision evaluator, and timed against the best so far. Throws UserError where no point is legal or none can
/// be measured, with what they said.
TuneResult tune(const Algorithm& algorithm, const ScheduleSpace& space, const TuneOptions& options);

/// The winner as a schedule file: a comment with device, shape, time, runner-up and how sure it is, then the schedule.
std::string tuned_schedule_text(const Algorithm& algorithm, const TuneOptions& options, const TuneResult& result);

/// Keeps the winner where Engine::build looks for schedules when none is named. `path` empty: tuning.json beside the
/// kernel cache. Returns the warnings, as of a damaged file that was put aside.
std::vector<std::string> keep_tuned(const Algorithm& algorithm, const TuneOptions& options, const TuneResult& result,
                                    const std::string& path = "");

}  // namespace astatide
