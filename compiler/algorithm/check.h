#pragma once

#include <set>
#include <string>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

/// What of an algorithm is there to be checked, when it comes from a file that holds other mistakes.
struct Known {
  /// Definitions whose text could not be read, so that only their names are known: reads of them are right.
  std::set<std::string> unread;
  bool outputs = true;
  bool sizes = true;

  /// Where something is missing, nothing can be called unused.
  bool all_uses() const { return unread.empty() && outputs; }
};

/// check_algorithm, collecting.
void check_into(const Algorithm& algorithm, const Known& known, Diagnostics& errors);

}  // namespace astatide
