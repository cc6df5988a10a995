// Tensor cores of sm_90a: wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). The instructions
// themselves are written beside each kernel, since their operands depend on its tiles.
#pragma once

#include "mma_sync.cuh"

// Of a tile in panels of 128 bytes with the 128-byte swizzle: `leading` bytes from panel to panel where the panels lie
// along the columns of a right operand, `stride` bytes from 8 rows to the next 8. Both are multiples of 16.
__device__ __forceinline__ unsigned long long matrix_descriptor(const void* tile, int leading, int stride) {
  const unsigned long long address = (shared_address(tile) & 0x3ffff) >> 4;
  return address | static_cast<unsigned long long>(leading >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}

// Registers that the instructions read or add to are ready.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kOpen groups are open.
template <int kOpen>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// Uses of x in the text behind this stay behind it.
__device__ __forceinline__ void pin(float& x) { asm volatile("" : "+f"(x)::"memory"); }
__device__ __forceinline__ void pin(unsigned& x) { asm volatile("" : "+r"(x)::"memory"); }

// What this thread has written to shared memory is visible to the asynchronous proxy, which wgmma and TMA go through.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- barriers in shared memory (PTX ISA, mbarrier), and TMA
__device__ __forceinline__ void barrier_init(unsigned long long* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Barriers that this thread has made are seen by all, TMA included.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fence_async_proxy();
}
__device__ __forceinline__ void barrier_arrive(unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives, and makes the phase end with so many bytes more.
__device__ __forceinline__ void barrier_expect(unsigned long long* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(unsigned long long* barrier, int parity) {
  unsigned done = 0;
  while (done == 0)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
}

// Turns of the warpgroups that compute, by named barriers (PTX ISA, bar): that of warpgroup n is number 1 + n, at which
// its threads wait for those of the warpgroup before it to arrive. Number 0 is that of __syncthreads.
template <int kWarpgroups>
__device__ __forceinline__ void take_turn(int warpgroup) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + kWarpgroups + warpgroup) : "memory");
}
template <int kWarpgroups>
__device__ __forceinline__ void pass_turn(int warpgroup) {
  asm volatile("bar.arrive %0, 256;" ::"r"(1 + kWarpgroups + (warpgroup + 1 < kWarpgroups ? warpgroup + 1 : 0))
               : "memory");
}

// Tiles of persistent blocks, dealt out by a counter {tiles drawn, blocks that have left}: each block begins with the
// one of its own number. Of clusters of so many blocks one block draws, and numbers are those of clusters.
__device__ __forceinline__ int draw_tile(unsigned* counter, unsigned blocks = 1) {
  return static_cast<int>(gridDim.x / blocks + atomicAdd(counter, 1u));
}
// The last block leaves the counter at 0: all others have drawn their last tile.
__device__ __forceinline__ void leave_tiles(unsigned* counter, unsigned blocks = 1) {
  if (atomicAdd(counter + 1, 1u) == gridDim.x / blocks - 1) counter[0] = 0, counter[1] = 0;
}

// The driver's description of a tensor: cuTensorMapEncodeTiled.
struct __align__(64) TensorMap {
  unsigned long long words[16];
};
// A box of a tensor at these coordinates, innermost first; elements outside the tensor are zeros.
__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, unsigned long long* full, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(c0), "r"(c1)
      : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, unsigned long long* full, int c0, int c1,
                                         int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, unsigned long long* full, int c0, int c1,
                                         int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, unsigned long long* full, int c0, int c1,
                                         int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// The same box, from memory into the L2 cache.
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(c0), "r"(c1));
}
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(c0), "r"(c1),
               "r"(c2));
}
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3));
}
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(map), "r"(c0),
               "r"(c1), "r"(c2), "r"(c3), "r"(c4));
}

// The same from shared to global memory; what lies outside the tensor is left out. All copies since a thread's last
// commit are one group.
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(shared_address(from)), "r"(c0), "r"(c1)
               : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from, int c0, int c1, int c2, int c3,
                                          int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until shared memory has been read by all groups of this thread.
__device__ __forceinline__ void tma_wait_until_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Four matrices of 8 x 8 16-bit elements to shared memory: what ldmatrix4 reads back from the same addresses.
__device__ __forceinline__ void stmatrix4(unsigned row, unsigned d0, unsigned d1, unsigned d2, unsigned d3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(d0), "r"(d1), "r"(d2),
               "r"(d3)
               : "memory");
}
// The 128 threads of a warpgroup meet; the block's own barrier is number 0.
__device__ __forceinline__ void warpgroup_sync(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

// Registers of this warpgroup's threads from here on: fewer, so that others may have more.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
