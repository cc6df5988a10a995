// Accesses of 4 to 16 bytes to global and shared memory.
#pragma once

#include "numeric.cuh"

struct __align__(8) Half4Bits {
  unsigned lo, hi;
};

// Four consecutive elements as floats; the address is aligned to four elements.
__device__ __forceinline__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
template <class Half>
__device__ __forceinline__ float4 widen4(Half4Bits v) {
  return make_float4(
      to_float(Half{static_cast<unsigned short>(v.lo)}), to_float(Half{static_cast<unsigned short>(v.lo >> 16)}),
      to_float(Half{static_cast<unsigned short>(v.hi)}), to_float(Half{static_cast<unsigned short>(v.hi >> 16)}));
}
__device__ __forceinline__ float4 load4(const f16* p) { return widen4<f16>(*reinterpret_cast<const Half4Bits*>(p)); }
__device__ __forceinline__ float4 load4(const bf16* p) { return widen4<bf16>(*reinterpret_cast<const Half4Bits*>(p)); }

__device__ __forceinline__ void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }
template <class Half>
__device__ __forceinline__ Half4Bits narrow4(float4 v) {
  return {from_float<Half>(v.x).bits | static_cast<unsigned>(from_float<Half>(v.y).bits) << 16,
          from_float<Half>(v.z).bits | static_cast<unsigned>(from_float<Half>(v.w).bits) << 16};
}
__device__ __forceinline__ void store4(f16* p, float4 v) { *reinterpret_cast<Half4Bits*>(p) = narrow4<f16>(v); }
__device__ __forceinline__ void store4(bf16* p, float4 v) { *reinterpret_cast<Half4Bits*>(p) = narrow4<bf16>(v); }

__device__ __forceinline__ void store2(float* p, float2 v) { *reinterpret_cast<float2*>(p) = v; }
__device__ __forceinline__ void store2(f16* p, float2 v) {
  *reinterpret_cast<unsigned*>(p) = from_float<f16>(v.x).bits | static_cast<unsigned>(from_float<f16>(v.y).bits) << 16;
}
__device__ __forceinline__ void store2(bf16* p, float2 v) {
  *reinterpret_cast<unsigned*>(p) = from_float<bf16>(v.x).bits | static_cast<unsigned>(from_float<bf16>(v.y).bits)
                                                                     << 16;
}

// Eight 16-bit elements in one access of 16 bytes, as they are.
template <class Half>
struct Eight {
  uint4 bits;
};
template <class Half>
__device__ __forceinline__ Eight<Half> load8(const Half* p) {
  return {*reinterpret_cast<const uint4*>(p)};
}
template <class Half>
__device__ __forceinline__ Eight<Half> repeat8(float x) {
  const unsigned both = from_float<Half>(x).bits * 0x10001u;
  return {make_uint4(both, both, both, both)};
}
template <class Half>
__device__ __forceinline__ float4 low4(Eight<Half> v) {
  return widen4<Half>({v.bits.x, v.bits.y});
}
template <class Half>
__device__ __forceinline__ float4 high4(Eight<Half> v) {
  return widen4<Half>({v.bits.z, v.bits.w});
}

// One element as a float.
template <class T>
__device__ __forceinline__ float load1(const T* p) {
  return to_float(*p);
}
// Component k of a vector; k is a constant once its loop is unrolled.
__device__ __forceinline__ float component(float4 v, int k) { return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w; }

// Whether a row of a tensor may be read in vectors of `bytes`: the address is aligned, and so is every step in `stride`
// elements.
template <class T>
__device__ __forceinline__ bool aligned(const T* p, int bytes) {
  return (reinterpret_cast<unsigned long long>(p) & (bytes - 1)) == 0;
}
__device__ __forceinline__ bool multiple(long long stride, int elements) { return stride % elements == 0; }
