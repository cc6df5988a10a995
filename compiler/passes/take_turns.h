#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Where a schedule asks for it, lets the consumers start products by wgmma in turns: taken in front of a product,
/// passed on in front of the wait behind which something else than the next product is computed. A loop that ends with
/// a product and begins with one keeps its turn from one iteration to the next, so that what lies between products is
/// computed outside of turns. Products that nothing runs beside get a token, to be waited for behind the pass.
/// Runs behind specialize_roles, which says who the consumers are.
tile::Program take_turns(const tile::Program& program, const Target& target);

}  // namespace astatide
