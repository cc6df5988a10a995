#pragma once

#include "compiler/rewrite/cascade.h"

namespace astatide {

/// Decides which axes of the stages are rows and which are `extra`: an axis that only one read along the cascade's axis
/// has, such as e of V[b,h,j,e], is extra. Fills `rows` in the order of `preferred`, and `extra` of each stage.
void split_rows(Cascade& cascade, const std::vector<std::string>& preferred);

}  // namespace astatide
