// Clusters of sm_90a: blocks that run at the same time and reach each other's shared memory (PTX ISA, "Cluster of
// Cooperative Thread Arrays"). Blocks are named by their rank in the cluster; what lies at one offset in the shared
// memory of each has the address of the caller's own.
#pragma once

#include "wgmma.cuh"

// All threads of the cluster meet. Those that have ended count as arrived.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ unsigned address_in(int block, const void* p) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(block));
  return address;
}

// Of a tile that only products and their registers have read: nothing that this thread wrote is to be seen there.
__device__ __forceinline__ void barrier_arrive_at(int block, unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(block, barrier)) : "memory");
}

// Numbers that one block passes on to others: stored, then released; seen by who acquires them.
__device__ __forceinline__ void store_at(int block, int* to, int value) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(address_in(block, to)), "r"(value) : "memory");
}
__device__ __forceinline__ void barrier_release_at(int block, unsigned long long* barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_in(block, barrier))
               : "memory");
}
__device__ __forceinline__ void barrier_acquire(unsigned long long* barrier, int parity) {
  unsigned done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// As tma_load, into the shared memory of every block of the mask, whose barriers each count the bytes.
__device__ __forceinline__ void tma_multicast(unsigned short mask, void* to, const TensorMap* map,
                                              unsigned long long* full, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%4, %5}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "h"(mask), "r"(c0), "r"(c1)
      : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, void* to, const TensorMap* map,
                                              unsigned long long* full, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "h"(mask), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, void* to, const TensorMap* map,
                                              unsigned long long* full, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%4, %5, %6, %7}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "h"(mask), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, void* to, const TensorMap* map,
                                              unsigned long long* full, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "h"(mask), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
