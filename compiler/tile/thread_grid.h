#pragma once

#include <vector>

#include "compiler/tile/ir.h"

// Which threads hold what of a statement's tiles: the emitters and the simulator deal elements out alike.

namespace astatide::tile {

/// Of a tile in registers, or of its rows; nullptr where it has none.
const ThreadGrid* find_grid(const Mem& mem);
/// The same; throws InternalError where none has been chosen.
const ThreadGrid& grid_of(const Mem& mem);
/// The grid that deals out the elements of a statement over these tiles: that of a register tile of two axes, else of a
/// row, else the kernel's own threads.
ThreadGrid grid_for(const Kernel& kernel, const std::vector<const Mem*>& tiles);

}  // namespace astatide::tile
