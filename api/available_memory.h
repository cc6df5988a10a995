#pragma once

#include <cstdint>
#include <string>

namespace astatide {

/// Throws MachineError when the machine has not this much memory left.
void require_memory(std::int64_t bytes, const std::string& what);

}  // namespace astatide
