#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide {

/// Whether the loop `after`, over the same variable, begins where the one in front of it ends.
bool adjoin(const tile::For& before, const tile::For& after);

/// The block with each chain of loops, those over one variable that follow each other, each beginning where the one
/// before it ends, replaced by what `f` appends for them. Of loops that `wanted` refuses none is part of a chain.
tile::Block replace_chains(tile::Block block, const std::function<bool(const tile::For&)>& wanted,
                           const std::function<void(std::vector<tile::For>, tile::Block&)>& f);
/// Whether a loop holds a product into `product` itself (not in a loop inside), and is not unrolled.
bool holds_product(const tile::For& loop, const tile::TileName& product);

/// The statement without its predicates and the limits of its coordinates: what it does to an element that is there.
tile::Stmt without_masks(const tile::Stmt& stmt);
/// Whether `general` does what `special` does, and tests at least what it tests: where `special` may run, so may it.
bool generalises(const tile::Stmt& general, const tile::Stmt& special);
/// The same of blocks; `general` may hold maps besides that only mask a tile.
bool generalises(const tile::Block& general, const tile::Block& special);

}  // namespace astatide
