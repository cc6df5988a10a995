// Reductions over neighbouring lanes.
#pragma once

// Over groups of kLanes neighbouring lanes (a power of two up to 32); every lane gets the result. All lanes of the warp
// take part.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
template <int kLanes>
__device__ __forceinline__ float lanes_max(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}
template <int kLanes>
__device__ __forceinline__ float lanes_min(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x = fminf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}
