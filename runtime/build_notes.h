#pragma once

#include <string>

#include "runtime/cache.h"

namespace astatide::runtime {

/// What an entry holds beside source and code for people to read. No part of its key: of builds that give the same
/// source the first is noted.
struct BuildNotes {
  std::string algorithm, schedule;  // as text; empty where there is none
  double lower_ms = 0;              // from them to source
};

/// `algorithm`, `schedule`, and `timings`: "lower_ms N" and "compile_ms N", a line each.
void add_notes(CacheFiles& files, const BuildNotes& notes, double compile_seconds);

}  // namespace astatide::runtime
