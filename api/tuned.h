#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "runtime/tuning_store.h"

namespace astatide {

/// What a tuned schedule is for. The text of the algorithm counts, not the sizes that its file proposes.
runtime::TunedEntry tuned_key(const Algorithm& algorithm, const Schedule& schedule, const Device& device, int threads,
                              ScalarType dtype, const std::map<std::string, std::int64_t>& sizes);

/// What the store is asked for. `device` by its name; none: entries of any device of the target count.
struct TunedRequest {
  std::optional<std::string> device;
  DispatchRequest what;
};

/// What came of asking an entry of the store.
struct TunedCandidate {
  runtime::TunedEntry entry;
  NamedSchedule schedule;  // "tuned"
  std::string why_not;     // empty: it serves the request
  bool stale = false;      // it would, had it not been made by another version, or become illegal
};

/// Asks the entries for algorithms of this name, in the order given. All that an entry was tuned for must be as asked
/// for, with lengths in the same range; it must be of this version of the program, and still compile.
std::vector<TunedCandidate> ask_tuned(const Algorithm& algorithm, const std::vector<runtime::TunedEntry>& entries,
                                      const TunedRequest& request);

/// "Sk 513 to 1024": the lengths that an entry stands for, and the extents that it is for alone ("D 128").
std::string lengths_of(const runtime::TunedEntry& entry);

/// tuning.json beside the kernel cache, or nowhere.
std::string default_tuning_store(const std::string& cache_root);
/// The file where an engine with these options looks; empty: there is no place for one.
std::string tuning_store_of(const EngineOptions& options);

/// Schedules that `tune` has kept, as an engine looks for them. Thread-safe; reads the file again when it has changed.
class TunedSchedules {
 public:
  /// An empty path: none.
  TunedSchedules(std::string path, int threads) : store_(std::move(path)), threads_(threads) {}

  /// The one that ask_tuned finds for this device. A stale one counts as none, with a warning.
  std::optional<NamedSchedule> find(const Algorithm& algorithm, const Device& device, const DispatchRequest& request);
  std::vector<std::string> take_warnings();

 private:
  void warn(const std::string& message);
  void read_if_changed();

  const runtime::TuningStore store_;
  const int threads_;
  std::mutex mutex_;  // guards what follows
  std::string read_;  // which file, as it was then
  std::vector<runtime::TunedEntry> entries_;
  std::vector<std::string> warned_, warnings_;
};

}  // namespace astatide
