#include "compiler/cost/occupancy.h"

#include <algorithm>

#include "compiler/passes/plan_memory.h"
#include "compiler/support/round_up.h"

namespace astatide::cost {
namespace {

/// Beside the fragments of a consumer of wgmma: addresses, places in rings (kernels with 204 of 240 registers in
/// fragments, 128 of 160 and 80 of 112 spill nothing, those with 216, 136 and 104 do).
constexpr int kOtherRegistersOfRoles = 26;

int registers_of_role(const tile::Kernel& kernel) {
  int most = 0;
  for (const tile::Stmt& stmt : kernel.body)
    if (const auto* role = std::get_if<tile::Role>(&stmt.node)) most = std::max(most, role->registers);
  return most;
}

}  // namespace

Occupancy occupancy_of(const Target& target, int threads, std::int64_t shared_bytes, int registers) {
  Occupancy out;
  const auto limit = [&](std::int64_t blocks, const char* by) {
    if (blocks >= out.blocks && !out.limited_by.empty()) return;
    out = {static_cast<int>(std::max<std::int64_t>(0, blocks)), by};
  };
  limit(target.blocks_per_sm, "blocks");
  limit(target.threads_per_sm / threads, "threads");
  limit(target.shared_memory_per_sm / (shared_bytes + kReservedSharedBytes), "shared memory");
  limit(target.registers_per_sm / (round_up<std::int64_t>(std::max(registers, 1), kRegisterUnit) * threads),
        "registers");
  return out;
}

Registers registers_of(const tile::Kernel& kernel, const Target& target) {
  Registers out;
  out.fragments = fragment_registers(kernel);
  out.limit = target.registers_per_thread;
  int others = kOtherRegisters;
  if (kernel.producers > 0) {
    const int of_role = registers_of_role(kernel);
    // Without setmaxnreg all threads of a block have the same.
    out.limit = of_role > 0 ? of_role : std::min<int>(out.limit, target.registers_per_sm / kernel.block_threads());
    others = kOtherRegistersOfRoles;
  } else {
    out.limit = std::min<std::int64_t>(
        out.limit, target.registers_per_sm /
                       (std::int64_t{std::max(1, kernel.blocks)} * kernel.teams * kernel.threads()) / kRegisterUnit *
                       kRegisterUnit);
  }
  out.asked = std::min(out.limit, out.fragments + others);
  out.spilled = out.fragments + others - out.asked;
  return out;
}

std::map<std::string, std::int64_t> launch_extents(const tile::Program& program, const Target& target,
                                                   std::map<std::string, std::int64_t> extents) {
  if (!program.parts || extents.contains(program.parts->extent)) return extents;
  const tile::Kernel& kernel = program.kernels[program.number_of(program.parts->kernel)];
  std::int64_t blocks = 1;
  if (target.is_cuda() && kernel.threads() > 0)
    blocks = occupancy_of(target, kernel.block_threads(), std::max<std::int64_t>(0, kernel.shared_bytes),
                          kernel.producers > 0 ? fragment_registers(kernel) : registers_of(kernel, target).asked)
                 .blocks;
  const std::int64_t resident = std::max<std::int64_t>(1, blocks) * std::max(1, target.multiprocessors);
  extents[program.parts->extent] = program.parts->choose(extents, resident);
  return extents;
}

}  // namespace astatide::cost
