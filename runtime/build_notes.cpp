#include "runtime/build_notes.h"

#include <fmt/format.h>

namespace astatide::runtime {

void add_notes(CacheFiles& files, const BuildNotes& notes, double compile_seconds) {
  if (!notes.algorithm.empty()) files.push_back({"algorithm", notes.algorithm});
  if (!notes.schedule.empty()) files.push_back({"schedule", notes.schedule});
  files.push_back(
      {"timings", fmt::format("lower_ms {:.3f}\ncompile_ms {:.3f}\n", notes.lower_ms, 1e3 * compile_seconds)});
}

}  // namespace astatide::runtime
