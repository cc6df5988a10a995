#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// Facts of a machine that schedules are checked against. Source of the CUDA rows: CUDA C++ Programming Guide, table of
/// technical specifications per compute capability.
struct Target {
  enum class Kind : std::uint8_t { cpu, cuda };

  std::string name;  // "sm_90a", "cpu"
  Kind kind = Kind::cuda;
  int compute_capability = 0;  // 90 for sm_90a; 0 for the CPU

  std::int64_t shared_memory_per_block = 0;  // bytes, with opt-in
  std::int64_t shared_memory_per_sm = 0;
  std::int64_t l2_bytes = 0;          // the least of the devices that people buy
  int multiprocessors = 0;            // of the whole chip as it is sold
  std::int64_t registers_per_sm = 0;  // 32 bits each
  int registers_per_thread = 0;
  int threads_per_block = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  std::int64_t blocks_per_grid = 0;  // along x; grids are one-dimensional

  bool is_cuda() const { return kind == Kind::cuda; }
};

/// sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120 and cpu.
const std::vector<Target>& known_targets();
/// nullptr where unknown; the caller reports with the nearest name.
const Target* find_target(std::string_view name);
/// The known target that a device of this compute capability runs, or nullptr.
const Target* target_of_device(int compute_capability);

}  // namespace astatide
