#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Makes one loop of the loops that split_masked_loops made of one, where the kernel's products are on FMA units: there
/// a tile's arithmetic hides a test a statement, and half the code compiles in half the time. A map stands under the
/// condition that its loop was of; any other statement tests what any of the loops tests. Kernels on tensor cores keep
/// their loops, whose bodies without branches are scheduled as one.
tile::Program join_loops(const tile::Program& program, const Target& target);

}  // namespace astatide
