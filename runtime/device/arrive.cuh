// Blocks that tell by a counter in global memory which of them comes to a place last.
#pragma once

// Stores in front of it are seen by whoever reads, behind such a fence, what is stored behind it. Unlike
// __threadfence(), it does not stand in one order with all fences of a device.
__device__ __forceinline__ void fence_of_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Whether of so many blocks this is the last one here. All kThreads threads that share the barrier come, one of them as
// the speaker. The counter is 0 before the first block comes and after the last, which sees what the threads of all
// have stored before they came: the stores of a block lie in front of its speaker's fence by the first barrier, and the
// last one's loads behind its speaker's fence by the second (PTX ISA, memory consistency model: fences are cumulative).
template <int kBarrier, int kThreads>
__device__ __forceinline__ bool arrives_last(int* counter, int blocks, bool speaker) {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
  int last = 0;
  if (speaker) {
    fence_of_device();
    last = atomicAdd(counter, 1) == blocks - 1;
    if (last) {
      // Nobody comes to this counter any more, so the next launch finds it as this one did.
      *counter = 0;
      fence_of_device();
    }
  }
  int any;
  asm volatile("{\n .reg .pred p;\n setp.ne.s32 p, %1, 0;\n bar.red.or.pred p, %2, %3, p;\n selp.s32 %0, 1, 0, p;\n}"
               : "=r"(any)
               : "r"(last), "n"(kBarrier), "n"(kThreads)
               : "memory");
  return any != 0;
}
