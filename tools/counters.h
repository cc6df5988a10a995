#pragma once

#include <string>
#include <vector>

#include "compiler/cost/counters.h"

namespace astatide::tools {

/// Starts this program's `run` with these words under ncu, which is on PATH, and reads what it counted of the first
/// `kernels` kernels. Throws MachineError, with what ncu says, where there is none, or it fails: counters may be closed
/// to users.
std::vector<cost::KernelCounters> count_kernels(const std::vector<std::string>& words, std::size_t kernels);

}  // namespace astatide::tools
