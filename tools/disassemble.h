#pragma once

#include <string>

namespace astatide::tools {

/// SASS of a cubin, by nvdisasm or cuobjdump: ASTATIDE_NVDISASM, or what is on PATH. Throws MachineError where there is
/// neither, or it fails.
std::string disassemble(const std::string& cubin);

}  // namespace astatide::tools
