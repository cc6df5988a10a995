// Scalar arithmetic of emitted kernels. Included by name from memory: no CUDA header is needed where kernels are
// compiled.
#pragma once

// Storage of 16-bit floating types. Arithmetic is done in float.
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

// A macro: neither NVRTC nor nvcc has a constant expression for it without a header.
#define kInfinity __int_as_float(0x7f800000)
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(double x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(int x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(long long x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(unsigned char x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(bool x) { return x ? 1.0f : 0.0f; }
__device__ __forceinline__ float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
// The upper half of a float, so widening is a shift.
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ double from_float<double>(float x) {
  return x;
}
template <>
__device__ __forceinline__ int from_float<int>(float x) {
  return static_cast<int>(x);
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// ex2.approx: 2 ulp over the full range (PTX ISA, ex2). The hardware unit has only the power of two.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_exp(float x) { return fast_exp2(x * kLog2e); }
// lg2.approx: an error of at most 2^-22, relative to the result where that is above 1 (PTX ISA, lg2).
__device__ __forceinline__ float fast_log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_log(float x) { return fast_log2(x) * (1.0f / kLog2e); }
// tanh.approx: off by up to 2^-11 of the result (PTX ISA, tanh), which schedules ask for by fast_math.
__device__ __forceinline__ float fast_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// rcp.approx: 1 ulp (PTX ISA, rcp). A division proper is a call.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.0f + fast_exp(-x)); }
// A reference in an exponent: minus infinity, the unit of a maximum, stands for no element yet.
__device__ __forceinline__ float safe(float x) { return x == -kInfinity ? 0.0f : x; }
// A product in which 0 absorbs even an infinite second factor.
__device__ __forceinline__ float absorb(float x, float y) { return x == 0.0f ? 0.0f : x * y; }

// What is no number stays none, unlike in fminf and fmaxf (PTX ISA, min and max: .NaN, sm_80 and later).
__device__ __forceinline__ float clamp_number(float x, float least, float most) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(least));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(most));
  return x;
}

// Of integers, rounding down. b > 0. One of the two may have 64 bits: then the quotient has, too.
template <class A, class B>
__device__ __forceinline__ auto floor_div(A a, B b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}
template <class A, class B>
__device__ __forceinline__ auto floor_mod(A a, B b) {
  return a - floor_div(a, b) * b;
}

// How many of `count` elements that do not decrease are less than `value`: all threads search together. Each step looks
// at five elements at once, since what a search takes is the time until memory answers. (With seven, kernels spill.)
template <class T, class V>
__device__ __forceinline__ int count_below(const T* first, long long stride, int count, V value) {
  constexpr int kParts = 6;
  int below = 0, end = max(count, 0);  // the answer lies between
  while (below < end) {
    const int part = (end - below) / kParts + 1;
    int whole = 0;  // parts that are less in all
#pragma unroll
    for (int n = 1; n < kParts; ++n) {
      const int last = below + n * part - 1;
      whole += last < end && first[last * stride] < value;
    }
    below += whole * part;
    if (whole < kParts - 1) end = min(end, below + part - 1);
  }
  return below;
}
