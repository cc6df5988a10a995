#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// In maps over tiles of kernels of tensor cores, factors of a product that are the same for all elements come
/// together behind the others, so that an element is multiplied once: (cap * x) * log2(e) is x * (cap * log2(e)). In
/// the operand of a function that an instruction approximates such divisors join them, since what the quotient loses is
/// less than what the function does: tanh(S * scale / cap) is tanh(S * (scale / cap)).
tile::Program fold_factors(const tile::Program& program, const Target& target);

}  // namespace astatide
