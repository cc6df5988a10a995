#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Bytes of a tile in shared memory, all slots and the padding of its rows included.
std::int64_t shared_bytes_of(const tile::Mem& mem);
/// Registers of a thread that the fragments take that are live at once; a lower bound of what the kernel needs.
int fragment_registers(const tile::Kernel& kernel);

/// Gives every shared tile an offset and each kernel its total. Throws UserError where a kernel's tiles or fragments
/// are over the target's budget, with the number, the limit, each buffer's share, and what would fit. From here on no
/// decision is left.
tile::Program plan_memory(const tile::Program& program, const Target& target);

}  // namespace astatide
