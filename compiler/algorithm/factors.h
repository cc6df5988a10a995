#pragma once

#include <vector>

#include "compiler/algorithm/expr.h"

namespace astatide {

/// What a product multiplies, in its order, products in it taken apart; of another expression itself.
inline std::vector<Expr> factors_of(const Expr& product) {
  if (!product.is_call(Op::mul)) return {product};
  std::vector<Expr> out;
  for (const Expr& arg : product.as<Call>()->args)
    for (Expr& factor : factors_of(arg)) out.push_back(std::move(factor));
  return out;
}

}  // namespace astatide
