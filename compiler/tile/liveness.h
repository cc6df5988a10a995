#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "compiler/tile/ir.h"

namespace astatide::tile {

/// Tiles that are read before they are written again, between any two statements: calls `at` with each such set,
/// innermost loops included. A loop's body is met with what its own next iteration reads.
void visit_live_tiles(const Kernel& kernel, const std::function<void(const std::set<TileName>&)>& at);

}  // namespace astatide::tile
