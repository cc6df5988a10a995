#pragma once

#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide {

/// Whether the loop `after`, over the same variable, begins where the one in front of it ends.
bool adjoin(const tile::For& before, const tile::For& after);

/// Loops over one variable that follow each other in a block, each beginning where the one before it ends: they share
/// out one range. Statements first .. last-1 of the block.
struct LoopChain {
  std::size_t first = 0, last = 0;
};
/// The chains of a block whose loops hold a product into `product` themselves (not in a loop inside), in order.
std::vector<LoopChain> chains_with_product(const tile::Block& block, const tile::TileName& product);

/// The statement without its predicates and the limits of its coordinates: what it does to an element that is there.
tile::Stmt without_masks(const tile::Stmt& stmt);
/// Whether `general` does what `special` does, and tests at least what it tests: where `special` may run, so may it.
bool generalises(const tile::Stmt& general, const tile::Stmt& special);
/// The same of blocks; `general` may hold maps besides that only mask a tile.
bool generalises(const tile::Block& general, const tile::Block& special);

}  // namespace astatide
