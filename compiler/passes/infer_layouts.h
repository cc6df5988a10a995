#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Chooses the instruction family of each product and the layout of each tile. Register tiles become fragments of the
/// kernel's thread grid: the accumulator of a product whose right operand has the contracted axis first in vectors of
/// four columns, others one by one; tiles that meet in a map share one layout. Shared tiles become rows, padded so that
/// reads of 16 bytes at neighbouring rows fall into different banks, or as align_storage says. Kernels without threads
/// (the CPU) get families only. Throws UserError where a product's operand is not where its family reads it. From here
/// on every tile has a layout and every product a family.
tile::Program infer_layouts(const tile::Program& program, const Target& target);

}  // namespace astatide
