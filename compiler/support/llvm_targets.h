#pragma once

#include <mutex>

namespace astatide {

/// Guards the start of LLVM's backends, which lie in a list of the process that no lock guards: the compiler and the
/// runtime start them, each where it first needs them.
inline std::once_flag llvm_targets_started;

}  // namespace astatide
