#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// In kernels of tensor cores, whose time the exponentials decide: exp(x - r), x a tile and r constant in a row,
/// becomes exp2(x * log2(e) - r * log2(e)), one multiply-add and one power of two an element once the right product is
/// hoisted. The reference is then rounded once more: at the maximum the weight is 1 within |r| * 2^-24, below what
/// 16-bit operands keep for any score within their range.
tile::Program fold_exponents(const tile::Program& program, const Target& target);

}  // namespace astatide
