#pragma once

#include <cstdint>
#include <string>

#include "compiler/schedule/target.h"

namespace astatide::cost {

/// What one product that stands for a target can do, and how long it takes to begin. What a schedule may ask for is in
/// Target; here is how fast that is. "A clock" is of one multiprocessor; on the CPU of one hardware thread.
struct Machine {
  std::string product;  // "H200 SXM"
  std::string source;   // of the numbers that no data sheet gives
  int compute_capability = 0;
  int multiprocessors = 0;
  double clock = 0;         // Hz, as long as tensor cores are idle
  double loaded_clock = 0;  // Hz, with tensor cores busy all the time: what the power limit leaves

  // Floating-point operations a clock; a multiply-add is two.
  double tensor_flops = 0;       // mma.sync, operands of 16 bits, sums of 32
  double tensor_tf32_flops = 0;  // the same, operands of tf32
  double tensor_share = 1;       // of them that a long row of instructions reaches
  double wgmma_flops = 0;        // 0: no such instruction
  double wgmma_share = 1;
  double lanes = 0;          // f32 multiply-adds a clock
  double special_lanes = 0;  // exp2, log2, reciprocal a clock
  /// Share of special_lanes left while wgmma runs, whose operands take the same ways into the units.
  double special_beside_wgmma = 1;

  double shared_bytes = 0;  // a clock
  double l2_bytes = 0;      // a clock, between a multiprocessor and L2
  double l2_rate = 0;       // bytes a second, of all together
  double l2_size = 0;       // bytes
  double l2_share = 1;      // of them that hold lines of one kernel, each once
  double memory_rate = 0;   // bytes a second
  double memory_share = 1;  // of it that a kernel reaches
  int shared_latency = 0;   // clocks, from asking to having
  int l2_latency = 0;
  int memory_latency = 0;

  double launch = 0;       // seconds that a launch takes by itself
  double next_launch = 0;  // that each further kernel adds to it
  int block_start = 0;     // clocks from a block's end to the first instruction of the next one

  bool has_wgmma() const { return wgmma_flops > 0; }
  /// f32 operations a second of all multiprocessors, tensor cores left out.
  double flops() const { return 2 * lanes * clock * multiprocessors; }
  double specials() const { return special_lanes * clock * multiprocessors; }
  /// Of products of 16 bits, by the fastest instruction.
  double tensor_rate() const;
  /// Operations of those a byte of memory: a kernel with less is bound by memory.
  double ridge() const { return tensor_rate() / memory_rate; }
  /// Hz, with tensor cores busy for this share of the time.
  double clock_at(double tensor_busy) const { return clock + (loaded_clock - clock) * tensor_busy; }
};

/// Of sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120, and a coarse one of the CPU. Throws InternalError for a target that
/// find_target does not know.
const Machine& machine_of(const Target& target);

}  // namespace astatide::cost
