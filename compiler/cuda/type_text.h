#pragma once

#include <string>

#include "compiler/support/scalar_type.h"

namespace astatide::cuda {

/// The type of a tensor's elements in emitted source: a builtin type, or one of runtime/device/numeric.cuh.
std::string type_text(ScalarType type);

}  // namespace astatide::cuda
