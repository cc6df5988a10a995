// Powers of two by multiply-adds, for the part of a tile's elements that a schedule keeps from the special-function
// unit. Included behind numeric.cuh; a test of the host puts words of its own in its place.
#pragma once

// 2^x = 2^n * 2^f, n = floor(x). Beside 1.5 * 2^23 a float counts in ones, so that a sum rounded down holds n in its
// low bits, which moved up are the exponent. The polynomial is the best of its degree for the relative error on [0, 1]
// whose first coefficient is 1; its coefficients were rounded one after the other. In f32 it is within 1.41e-7 of 2^f,
// relative, no more than ex2.approx is off (2 ulp). Below -126 the result is 0 and from 128 on infinity, as that of
// ex2.approx.ftz.
__device__ __forceinline__ float polynomial_exp2(float x) {
  constexpr float kOnes = 12582912.0f;
  const float bounded = clamp_number(x, -127.0f, 128.0f);
  const float shifted = __fadd_rd(bounded, kOnes);
  const float f = bounded - (shifted - kOnes);
  float p = 0.0018669526325538754f;
  p = fmaf(p, f, 0.009017480537295341f);
  p = fmaf(p, f, 0.055799514055252075f);
  p = fmaf(p, f, 0.2401645928621292f);
  p = fmaf(p, f, 0.6931512951850891f);
  p = fmaf(p, f, 1.0f);
  return p * __int_as_float((__float_as_int(shifted) << 23) + 0x3f800000);
}

// By the polynomial or by the unit. The choice is known when the loop around it is unrolled.
__device__ __forceinline__ float exp2_by(bool polynomial, float x) {
  return polynomial ? polynomial_exp2(x) : fast_exp2(x);
}
__device__ __forceinline__ float exp_by(bool polynomial, float x) { return exp2_by(polynomial, x * kLog2e); }
