#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

/// More are not collected: each holds a line of the file.
constexpr std::size_t kMostProblems = 100;

/// What of an algorithm is there to be checked, when it comes from a file that holds other mistakes.
struct Known {
  /// Definitions whose text could not be read, so that only their names are known: reads of them are right.
  std::set<std::string> unread;
  bool name = true;
  bool outputs = true;
  bool sizes = true;
  bool updates = true;
  /// Where the extents of axes were given.
  std::map<std::string, Location> axes;

  /// Where something is missing, nothing can be called unused.
  bool all_uses() const { return unread.empty() && outputs && updates; }
};

/// check_algorithm, collecting.
void check_into(const Algorithm& algorithm, const Known& known, Diagnostics& errors);

}  // namespace astatide
