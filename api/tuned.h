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

/// tuning.json beside the kernel cache, or nowhere.
std::string default_tuning_store(const std::string& cache_root);

/// Schedules that `tune` has kept, as an engine looks for them. Thread-safe; reads the file again when it has changed.
class TunedSchedules {
 public:
  /// An empty path: none.
  TunedSchedules(std::string path, int threads) : store_(std::move(path)), threads_(threads) {}

  /// The one for this device, type and sizes. An entry whose text is no schedule counts as none, with a warning.
  std::optional<NamedSchedule> find(const Algorithm& algorithm, const Device& device, ScalarType dtype,
                                    const std::map<std::string, std::int64_t>& sizes);
  void warn(const std::string& message);
  std::vector<std::string> take_warnings();

 private:
  void read_if_changed();

  const runtime::TuningStore store_;
  const int threads_;
  std::mutex mutex_;  // guards what follows
  std::string read_;  // which file, as it was then
  std::vector<runtime::TunedEntry> entries_;
  std::vector<std::string> warned_, warnings_;
};

}  // namespace astatide
