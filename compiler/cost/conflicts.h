#pragma once

#include <cstdint>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide::cost {

/// How often a warp's access to shared memory goes round, over the least that its bytes need: 1 without conflicts.
/// `addresses` are those of its lanes, each of which takes `bytes` from a multiple of them; equal words are one.
double bank_conflicts(const std::vector<std::int64_t>& addresses, int bytes);

/// Of ldmatrix: eight neighbouring rows of a tile, 16 bytes of each.
double matrix_conflicts(const tile::Mem& mem);
/// Of a warp of the grid that takes a tile element by element.
double element_conflicts(const tile::Mem& mem, const tile::ThreadGrid& grid);
/// Of a warp of the grid that multiplies: every lane takes 16 bytes of a row of its own (`by_rows`), or of the columns
/// of its own in one row.
double operand_conflicts(const tile::Mem& mem, const tile::ThreadGrid& grid, bool by_rows);

}  // namespace astatide::cost
