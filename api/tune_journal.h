#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/tune.h"
#include "runtime/file_descriptor.h"

namespace astatide {

/// What a search is of, by names: a journal belongs to one.
using JournalKey = std::map<std::string, std::string>;

/// A file with a line for the search, and one for each point that was measured, each written at once. A process that
/// is killed leaves all lines but perhaps a part of the last, which the next one cuts off.
class TuneJournal {
 public:
  /// An empty path: none is kept. With `resume` reads what is there: throws UserError where it is of another search
  /// (with what differs), or a line before the last is none. Without it a journal that has not ended is refused.
  TuneJournal(const std::string& path, const JournalKey& key, bool resume);

  /// By the text of the point.
  const std::map<std::string, TunedPoint>& known() const { return known_; }
  void add(const TunedPoint& point);
  void end();
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void write(const std::string& line);

  std::string path_;
  runtime::FileDescriptor file_;
  std::map<std::string, TunedPoint> known_;
  std::vector<std::string> warnings_;
};

}  // namespace astatide
