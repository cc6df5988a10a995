#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Loads the left operands of mma_sync that no loop changes into registers in front of the loops, where the fragments
/// leave room for that and a multiprocessor holds as many blocks as before. Runs before insert_barriers, which keeps
/// the load behind the copy that fills the operand.
tile::Program hold_operands(const tile::Program& program, const Target& target);

}  // namespace astatide
