#pragma once

#include "compiler/rewrite/cascade.h"

namespace astatide {

/// Decides which axes of the stages are rows and which are `extra`: an axis that only one read along the cascade's axis
/// has, such as e of V[b,h,j,e], is extra. Fills `rows` in the order of `preferred`, and `extra` of each stage.
void split_rows(Cascade& cascade, const std::vector<std::string>& preferred);

/// The expression with every element replaced by what it is computed from (a product by its reads at one
/// place of the contracted axis): shows on which axes the value depends.
Expr with_elements_expanded(const Expr& e, const std::vector<Element>& elements);

}  // namespace astatide
