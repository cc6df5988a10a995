#pragma once

#include "compiler/schedule/target.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Replaces each advance by maps: the new references aside, the moved tiles by their expressions, the references last.
/// A moved tile that another's expression reads is moved after it. From here on there is no advance.
tile::Program relax_rescale(const tile::Program& program, const Target& target);

}  // namespace astatide
