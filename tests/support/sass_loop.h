// What a kernel's hottest loop is made of, read from its disassembly.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace astatide::testing {

/// Instructions by class, in a fixed order, the last of them "total". Classes are the parts of opcodes before the first
/// dot: "HGMMA" and "HMMA" count as "mma".
using InstructionCounts = std::vector<std::pair<std::string, int>>;

int count_of(const InstructionCounts& counts, const std::string& name);

/// Of the loop with the most tensor core instructions among those that hold no other such loop, those that every
/// iteration runs: blocks that a branch may skip are cold. Of equal loops the shortest, which tests no mask. `sass` is
/// what nvdisasm --print-code or cuobjdump -sass prints. Nothing where no loop has such an instruction.
std::optional<InstructionCounts> hottest_loop(const std::string& sass);

/// As golden text, one class a line, and back.
std::string to_text(const InstructionCounts& counts);
InstructionCounts parse_counts(const std::string& text);

}  // namespace astatide::testing
