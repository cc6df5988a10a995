#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// A subexpression of a map over two axes that reads tiles of rows only becomes a tile of rows, computed once a row;
/// maps behind it that compute the same use it. From here on no map over a tile computes what is constant in a row.
tile::Program hoist_row_invariants(const tile::Program& program, const Target& target);

}  // namespace astatide
