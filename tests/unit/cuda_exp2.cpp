// The polynomial of runtime/device/exp2.cuh, compiled for the host: its error, and what it makes of values that are no
// exponents.

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace {

// What the header calls, as the device computes it.
constexpr float kLog2e = 1.4426950408889634f;

float clamp_number(float x, float least, float most) {
  return std::isnan(x) ? x : std::fmin(std::fmax(x, least), most);
}
/// `ones` counts in ones: a sum rounded down holds the floor of x.
float add_rounded_down(float x, float ones) { return std::floor(x) + ones; }
int bits_of(float x) { return std::bit_cast<int>(x); }
float of_bits(int bits) { return std::bit_cast<float>(bits); }
float fast_exp2(float) { return -1.0f; }

#define __device__
#define __forceinline__ inline
#define __fadd_rd add_rounded_down
#define __float_as_int bits_of
#define __int_as_float of_bits
#include "runtime/device/exp2.cuh"
#undef __device__
#undef __forceinline__
#undef __fadd_rd
#undef __float_as_int
#undef __int_as_float

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("the polynomial for powers of two is within 1.41e-7 of them, relative, for all exponents of normal numbers") {
  double worst = 0;
  for (int n = -126; n < 128; ++n)
    for (int part = 0; part < 4096; ++part) {
      const float x = static_cast<float>(n) + static_cast<float>((part * 2654435761u) >> 16) / 65536.0f;
      worst = std::max(worst, std::fabs(polynomial_exp2(x) / std::exp2(static_cast<double>(x)) - 1));
    }
  INFO(worst);
  CHECK(worst < 1.41e-7);
  CHECK(worst > 1e-7);
}

TEST_CASE("whole exponents give exact powers, and what is beyond them zero or infinity") {
  for (int n = -126; n < 128; ++n) CHECK(polynomial_exp2(static_cast<float>(n)) == std::ldexp(1.0f, n));
  for (const float x : {-126.00001f, -127.0f, -1000.0f, -3e38f, -kInf}) CHECK(polynomial_exp2(x) == 0.0f);
  for (const float x : {128.0f, 1000.0f, 3e38f, kInf}) CHECK(polynomial_exp2(x) == kInf);
  CHECK(std::isfinite(polynomial_exp2(127.99999f)));
  CHECK(std::isnan(polynomial_exp2(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::fabs(polynomial_exp2(-1e-30f) - 1.0f) < 2e-7f);
}

TEST_CASE("an exponential is computed by the unit where the polynomial is not chosen") {
  CHECK(exp2_by(true, 3.0f) == 8.0f);
  CHECK(exp2_by(false, 3.0f) == -1.0f);
  CHECK(std::fabs(exp_by(true, 1.0f) / 2.7182818f - 1) < 1e-6f);
}
