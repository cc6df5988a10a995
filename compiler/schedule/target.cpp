#include "compiler/schedule/target.h"

namespace astatide {
namespace {

constexpr std::int64_t kKiB = 1024;
// CUDA C++ Programming Guide: x extent of a grid, all compute capabilities.
constexpr std::int64_t kBlocksPerGrid = 2147483647;

struct Occupancy {
  std::int64_t
      shared_kib_per_block;  // with opt-in: the multiprocessor's, less 1 KiB that the system reserves for each block
  std::int64_t shared_kib_per_sm;
  int threads_per_sm;
  int blocks_per_sm;
  std::int64_t l2_mib;  // this and the next: whitepapers of A100, RTX 3090, L4, H100, B200, RTX 5090
  int multiprocessors;
};

Target cuda_target(std::string name, int compute_capability, const Occupancy& facts) {
  Target t;
  t.name = std::move(name);
  t.kind = Target::Kind::cuda;
  t.compute_capability = compute_capability;
  t.shared_memory_per_block = facts.shared_kib_per_block * kKiB;
  t.shared_memory_per_sm = facts.shared_kib_per_sm * kKiB;
  t.l2_bytes = facts.l2_mib * kKiB * kKiB;
  t.multiprocessors = facts.multiprocessors;
  t.registers_per_sm = 65536;
  t.registers_per_thread = 255;
  t.threads_per_block = 1024;
  t.threads_per_sm = facts.threads_per_sm;
  t.blocks_per_sm = facts.blocks_per_sm;
  t.blocks_per_grid = kBlocksPerGrid;
  return t;
}

Target cpu_target() {
  Target t;
  t.name = "cpu";
  t.kind = Target::Kind::cpu;
  // "Shared memory" of a core is a workspace that should stay in its own L2 cache; 1 MiB is what server cores have had
  // since 2017 (Skylake-SP; Zen 4). Nothing breaks beyond it, but a tile that leaves L2 is slower than none, so it is
  // refused.
  t.shared_memory_per_block = 1024 * kKiB;
  t.shared_memory_per_sm = 1024 * kKiB;
  t.blocks_per_grid = std::int64_t{1} << 40;
  return t;
}

}  // namespace

const std::vector<Target>& known_targets() {
  static const std::vector<Target> targets = {
      cuda_target("sm_80", 80, {163, 164, 2048, 32, 40, 108}),
      cuda_target("sm_86", 86, {99, 100, 1536, 16, 6, 82}),
      cuda_target("sm_89", 89, {99, 100, 1536, 24, 48, 58}),
      cuda_target("sm_90a", 90, {227, 228, 2048, 32, 50, 132}),
      cuda_target("sm_100", 100, {227, 228, 2048, 32, 126, 148}),
      cuda_target("sm_120", 120, {99, 100, 1536, 24, 96, 170}),
      cpu_target(),
  };
  return targets;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : known_targets())
    if (target.name == name) return &target;
  return nullptr;
}

const Target* target_of_device(int compute_capability) {
  // A device runs code of an earlier minor version of its own major version; the nearest such target has its facts.
  const Target* best = nullptr;
  for (const Target& target : known_targets()) {
    if (!target.is_cuda() || target.compute_capability > compute_capability) continue;
    if (target.compute_capability / 10 != compute_capability / 10) continue;
    if (best == nullptr || target.compute_capability > best->compute_capability) best = &target;
  }
  // 8.7 has the shared memory of 8.0, not that of 8.6.
  return compute_capability == 87 ? find_target("sm_80") : best;
}

}  // namespace astatide
