#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Loads left operands of tensor cores from shared memory into registers in front of the loops that read them: those
/// that are to be held, and of mma_sync those that no loop changes, where the fragments leave room for that and a
/// multiprocessor holds as many blocks as before. A slot of a ring is released as soon as it has been read. Runs before
/// insert_barriers, which keeps the load behind the copy that fills the operand. Throws UserError where something else
/// reads what is to be held.
tile::Program hold_operands(const tile::Program& program, const Target& target);

}  // namespace astatide
