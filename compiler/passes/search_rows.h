#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// On GPUs, what a monotone tensor decides is searched for, not tested element by element: `where doc_q[i] ==
/// doc_k[j]` becomes `where begin <= j and j < end`, two tiles of rows that searches fill in front of the loops. Those
/// searches stay between what the loops' bounds have found for all rows, each search of which is one let.
tile::Program search_rows(const tile::Program& program, const Target& target);

}  // namespace astatide
