#pragma once

#include "compiler/rewrite/derivation.h"

namespace astatide {

/// The outputs over slots, simplified where that keeps their value for an empty row, and free of NaN there.
std::vector<RowValue> finalize_values(Derivation& derivation);

}  // namespace astatide
