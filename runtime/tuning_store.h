#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace astatide::runtime {

/// A schedule that was found to be the fastest, and what for.
struct TunedEntry {
  std::string algorithm;      // its name, for people
  std::string algorithm_key;  // SHA-256 of its text
  std::string dtype, device, target;
  std::map<std::string, std::int64_t> known;    // extents that the code relies on: equal or another entry
  std::map<std::string, std::int64_t> extents;  // the others, as they were tuned for
  std::string schedule;                         // text
  // For people.
  double median_ms = 0, confidence = 0;
  std::string runner_up, driver, version, method, date;

  /// Whether both are for the same: one takes the place of the other.
  bool same_key(const TunedEntry& other) const;
};

/// Lengths are kept by ranges: (512, 1024] is one, whatever was tuned for in it.
int length_bucket(std::int64_t length);

/// Schedules in a JSON file that processes share: read whole, written aside and renamed. A file that is damaged, of
/// another version or another user's counts as empty, with a warning; `keep` puts a damaged one or one of another
/// version aside before it writes.
class TuningStore {
 public:
  static constexpr int kVersion = 1;

  explicit TuningStore(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::vector<TunedEntry> load(std::vector<std::string>& warnings) const;
  /// Adds an entry, in place of one for the same. False, with a warning, where it can't be written.
  bool keep(const TunedEntry& entry, std::vector<std::string>& warnings) const;

 private:
  std::filesystem::path path_;
};

}  // namespace astatide::runtime
