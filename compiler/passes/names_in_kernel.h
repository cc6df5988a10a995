#pragma once

#include "compiler/rewrite/fresh_names.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Makes names that nothing in a kernel has, for the tiles and lets of a pass.
FreshNames names_in_kernel(const tile::Program& program, const tile::Kernel& kernel);

}  // namespace astatide
