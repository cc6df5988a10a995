#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/rewrite/cascade.h"
#include "compiler/rewrite/normal_form.h"

namespace astatide {

/// One product of two tiles with what multiplies it from outside the contraction.
struct ScaledProduct {
  Product product;
  Expr factor;  // does not vary along the contracted axis
};

/// sum over `contracted` of `body` as a sum of products of a row read and a read along `axis`. None where it is
/// anything else.
std::optional<std::vector<ScaledProduct>> find_products(const std::string& contracted, const Expr& body,
                                                        const std::string& axis);

}  // namespace astatide
