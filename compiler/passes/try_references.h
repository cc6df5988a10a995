#pragma once

#include "compiler/tile/ir.h"

namespace astatide {

/// A block around an advance, taken apart to be tried before any candidate is known.
struct TriedBlock {
  tile::Block before;      // what stands in front of the advance, less what only candidates need
  tile::Block candidates;  // makes the candidates, from operands
  tile::Block sums;        // makes the witnesses, behind the advance
  tile::Block after;       // the rest
};

/// The block is then: before, sums, a vote on the witnesses, under its flag candidates, the advance and sums once more,
/// and after. Only statements that do not conflict change places. Throws UserError where the second time would not find
/// what the first did, or, with threads, would write shared memory that other threads read.
TriedBlock try_references(const tile::Kernel& kernel, const tile::Block& block, std::size_t advance);

}  // namespace astatide
