#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// The system keeps as much of a multiprocessor's shared memory for each block (CUDA C++ Programming Guide, compute
/// capability 8.x). Registers are given to warps in units of 256, 8 a thread.
inline constexpr std::int64_t kReservedSharedBytes = 1024;
inline constexpr int kRegisterUnit = 8;
/// Beside the fragments of mma_sync: operands under way, addresses, strides.
inline constexpr int kOtherRegisters = 60;

/// Bytes of a tile in shared memory, all slots and the padding of its rows included.
std::int64_t shared_bytes_of(const tile::Mem& mem);
/// Registers of a thread that the fragments take that are live at once; a lower bound of what the kernel needs.
int fragment_registers(const tile::Kernel& kernel);

/// How many blocks of warps that compute with mma_sync have their registers at once, fragments taking so many a thread.
std::int64_t blocks_by_registers(int fragments, int threads, const Target& target);

/// Gives every shared tile an offset and each kernel its total. Throws UserError where a kernel's tiles or fragments
/// are over the target's budget, with the number, the limit, each buffer's share, and what would fit. Also
/// says how many blocks of mma_sync a multiprocessor is to hold. From here on no decision is left.
tile::Program plan_memory(const tile::Program& program, const Target& target);

}  // namespace astatide
