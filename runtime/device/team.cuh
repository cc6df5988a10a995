// Teams of several warps of a block, each of which runs by itself.
#pragma once

// The kThreads threads of the team meet, at a named barrier of their own.
template <int kThreads>
__device__ __forceinline__ void team_sync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
