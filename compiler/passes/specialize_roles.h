#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// In a kernel with producers, the statements become two roles with the same loops: the producer reserves slots of
/// rings and copies into them, the consumers do all the rest. They share rings and nothing else.
tile::Program specialize_roles(const tile::Program& program, const Target& target);

}  // namespace astatide
