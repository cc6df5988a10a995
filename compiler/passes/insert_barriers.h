#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Puts a sync in front of each statement that conflicts, through memory that the threads of a block share, with one
/// since the last sync; a loop's body is met with what its own end leaves open. Shared are tiles in shared memory, and
/// tensors that the kernel itself writes. Kernels of one thread (the CPU) stay as they are. From here on no thread
/// reads what another has not finished.
tile::Program insert_barriers(const tile::Program& program, const Target& target);

}  // namespace astatide
