// Kernels that start before those in front of them in a stream have ended (PTX ISA, griddepcontrol; sm_90).
#pragma once

// The kernel behind this one may start as soon as all blocks have come here, or ended.
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }

// Until the kernels in front have ended, and what they have stored is there.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
