#pragma once

#include <map>
#include <string>

#include "compiler/rewrite/derive_merge.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {

/// What lowering needs beside the algebra and the schedule.
struct LowerOptions {
  Target target;
  /// Extents known at compile time: those of every axis that no loop tiles, and every extent with a bound.
  std::map<std::string, std::int64_t> known;
  /// Type of the inputs that name none. Outputs whose axes include one beyond the rows have it too; row outputs are
  /// f32.
  ScalarType dtype = ScalarType::f32;
};

/// One reduction after another, each a pass over the axis (rewrite: none): definitions with compute_root get kernels of
/// their own.
Program lower_cascade(const Algorithm& algorithm, const Cascade& cascade, const Schedule& schedule,
                      const LowerOptions& options);

/// The streaming form: one loop over the axis's tiles, one advance; state in registers, or in global memory where its
/// loop lies inside the loop that carries it (rewrite: online). With the axis in parts (rfactor) the state of each goes
/// to global memory, and a second kernel merges them.
Program lower_recurrence(const Algorithm& algorithm, const Recurrence& recurrence, const Schedule& schedule,
                         const LowerOptions& options);

/// Puts a kernel for each update of an input in front of a lowered program's own. It needs no word of the schedule.
void add_updates(Program& program, const Algorithm& algorithm, const LowerOptions& options);

/// One kernel that merges the outputs of parts, which are its inputs: a row a tile.
Program lower_merge_of_outputs(const astatide::Merge& merge, const LowerOptions& options);

}  // namespace astatide::tile
