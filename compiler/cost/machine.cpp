#include "compiler/cost/machine.h"

#include <algorithm>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace astatide::cost {
namespace {

constexpr double kMega = 1e6, kGiga = 1e9, kTera = 1e12, kMiB = 1024.0 * 1024;

// Sources, unless a row says otherwise. Multiprocessors, clocks, memory: NVIDIA's data sheets and whitepapers of the
// product. Tensor operations a clock: the data sheet's dense rate with sums of 32 bits over multiprocessors and boost
// clock. Lanes, special lanes, bytes of shared memory a clock: CUDA C++ Programming Guide, arithmetic instructions and
// shared memory. Latencies: microbenchmarks of A100 and H100 (Luo et al. 2024, "Benchmarking and dissecting the NVIDIA
// Hopper GPU architecture"); for others those of the nearest. Of L2 five eighths are counted on sm_80 and sm_90,
// whose two partitions keep copies of each other's lines, and three quarters elsewhere.
std::vector<Machine> make_machines() {
  Machine ampere;
  ampere.product = "A100 SXM 80 GB";
  ampere.source = "rates of L2: microbenchmarks";
  ampere.compute_capability = 80;
  ampere.multiprocessors = 108;
  ampere.clock = ampere.loaded_clock = 1410 * kMega;
  ampere.tensor_flops = 2048;
  ampere.tensor_tf32_flops = 1024;
  ampere.lanes = 64;
  ampere.special_lanes = 16;
  ampere.shared_bytes = 128;
  ampere.l2_bytes = 64;
  ampere.l2_rate = 4.5 * kTera;
  ampere.l2_size = 40 * kMiB;
  ampere.l2_share = 0.625;
  ampere.memory_rate = 2039 * kGiga;
  ampere.memory_share = 0.92;
  ampere.shared_latency = 23;
  ampere.l2_latency = 200;
  ampere.memory_latency = 470;
  ampere.launch = 4e-6;
  ampere.next_launch = 2e-6;
  ampere.block_start = 800;

  Machine ga102 = ampere;
  ga102.product = "GeForce RTX 3090";
  ga102.source = "rates of L2: those of A100 by multiprocessors";
  ga102.compute_capability = 86;
  ga102.multiprocessors = 82;
  ga102.clock = ga102.loaded_clock = 1695 * kMega;
  ga102.tensor_flops = 512;
  ga102.tensor_tf32_flops = 256;
  ga102.lanes = 128;
  ga102.l2_rate = 2.7 * kTera;
  ga102.l2_size = 6 * kMiB;
  ga102.l2_share = 0.75;
  ga102.memory_rate = 936 * kGiga;

  Machine ada = ga102;
  ada.product = "L40S";
  ada.compute_capability = 89;
  ada.multiprocessors = 142;
  ada.clock = ada.loaded_clock = 2520 * kMega;
  ada.tensor_flops = 1024;
  ada.tensor_tf32_flops = 512;
  ada.l2_rate = 5 * kTera;
  ada.l2_size = 96 * kMiB;
  ada.memory_rate = 864 * kGiga;

  // Measured on an H200 (tests/perf/results): the loaded clock and the share of wgmma from kernels with 88 to 93 % of
  // the tensor pipe busy; the rate of L2 from decoding with each head's keys read by itself; launches between events;
  // exponentials beside wgmma at 0.65 of their rate; mma.sync at 0.62 of wgmma (Luo et al.).
  Machine hopper = ampere;
  hopper.product = "H200 SXM";
  hopper.source = "loaded clock, L2, launches, exponentials beside products: measured";
  hopper.compute_capability = 90;
  hopper.multiprocessors = 132;
  hopper.clock = 1980 * kMega;
  hopper.loaded_clock = 1580 * kMega;
  hopper.tensor_flops = 2540;
  hopper.tensor_tf32_flops = 1270;
  hopper.tensor_share = 0.9;
  hopper.wgmma_flops = 4096;
  hopper.wgmma_share = 0.97;
  hopper.lanes = 128;
  hopper.special_beside_wgmma = 0.6;
  hopper.l2_rate = 7.5 * kTera;
  hopper.l2_size = 50 * kMiB;
  hopper.memory_rate = 4800 * kGiga;
  hopper.memory_share = 0.95;
  hopper.shared_latency = 30;
  hopper.l2_latency = 270;
  hopper.memory_latency = 640;
  hopper.launch = 4.4e-6;
  hopper.next_launch = 2.6e-6;

  // What is compiled for sm_100 and sm_120 here are instructions of the warp; those of the fifth tensor cores (tcgen05)
  // are none of them. Their rate on sm_100 is taken from sm_90; nothing was measured.
  Machine blackwell = hopper;
  blackwell.product = "B200";
  blackwell.source = "mma.sync, L2, latencies: those of H200, not measured";
  blackwell.compute_capability = 100;
  blackwell.multiprocessors = 148;
  blackwell.clock = blackwell.loaded_clock = 1965 * kMega;
  blackwell.wgmma_flops = 0;
  blackwell.special_beside_wgmma = 1;
  blackwell.l2_rate = 10 * kTera;
  blackwell.l2_size = 126 * kMiB;
  blackwell.memory_rate = 8000 * kGiga;

  Machine gb202 = ada;
  gb202.product = "GeForce RTX 5090";
  gb202.compute_capability = 120;
  gb202.multiprocessors = 170;
  gb202.clock = gb202.loaded_clock = 2407 * kMega;
  gb202.tensor_flops = 512;
  gb202.tensor_tf32_flops = 256;
  gb202.l2_rate = 6 * kTera;
  gb202.memory_rate = 1792 * kGiga;

  // Coarse: one machine that was measured (tests/perf/results), sgemm of OpenBLAS for lanes. The part of L2 is that of
  // the last cache, which threads share.
  Machine cpu;
  cpu.product = "EPYC (Zen 3), 2 threads";
  cpu.source = "measured";
  cpu.multiprocessors = 2;
  cpu.clock = cpu.loaded_clock = 3000 * kMega;
  cpu.lanes = 13.3;
  cpu.special_lanes = 0.8;
  cpu.l2_size = 16 * kMiB;
  cpu.memory_rate = 20 * kGiga;
  cpu.launch = 5e-6;
  cpu.next_launch = 5e-6;
  return {ampere, ga102, ada, hopper, blackwell, gb202, cpu};
}

}  // namespace

double Machine::tensor_rate() const {
  return std::max({tensor_flops, wgmma_flops, 2 * lanes}) * loaded_clock * multiprocessors;
}

const Machine& machine_of(const Target& target) {
  static const std::vector<Machine> machines = make_machines();
  const auto found = std::find_if(machines.begin(), machines.end(), [&](const Machine& machine) {
    return machine.compute_capability == target.compute_capability;
  });
  if (found == machines.end()) throw InternalError("nothing is known of a machine of " + target.name);
  return *found;
}

}  // namespace astatide::cost
