#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Makes whole what row_reduce leaves as a share in each lane: an all_reduce stands in front of the first statement
/// that reads the tile otherwise than by adding to it, adding it to another share, scaling it or voting on it. A share
/// that a loop adds to is made whole behind the loop, one that is read whole under a condition alone there. Runs after
/// insert_barriers: the lanes of a row lie in one warp, so no sync is needed. From here on no share is read as a whole.
tile::Program close_shares(const tile::Program& program, const Target& target);

}  // namespace astatide
