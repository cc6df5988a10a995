#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/support/half.h"

using namespace astatide;

namespace {

bool is_nan16(std::uint16_t bits, std::uint16_t infinity) { return (bits & 0x7fffu) > infinity; }

// The value of an f16 from its definition: sign, 5 bits of exponent with bias 15, 10 bits of fraction.
double f16_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

TEST_CASE("every f16 has the value of its definition and comes back from f32 as the same bits") {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (is_nan16(bits, 0x7c00)) {
      if (!std::isnan(f16_to_f32(bits)) || f32_to_f16(f16_to_f32(bits)) != (bits | 0x200u)) FAIL("f16 NaN " << i);
    } else if (static_cast<double>(f16_to_f32(bits)) != f16_by_definition(bits) ||
               f32_to_f16(f16_to_f32(bits)) != bits || f64_to_f16(f16_by_definition(bits)) != bits) {
      FAIL("f16 bits " << i);
    }
  }
}

TEST_CASE("every bf16 is the upper half of its f32 and comes back as the same bits") {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (is_nan16(bits, 0x7f80)) {
      if (!std::isnan(bf16_to_f32(bits)) || f32_to_bf16(bf16_to_f32(bits)) != (bits | 0x40u)) FAIL("bf16 NaN " << i);
    } else if (bf16_to_f32(bits) != std::bit_cast<float>(i << 16) || f32_to_bf16(bf16_to_f32(bits)) != bits) {
      FAIL("bf16 bits " << i);
    }
  }
}

TEST_CASE("between two f16 or bf16 the nearest is taken, and at the middle the even one") {
  const auto check = [](unsigned infinity, auto widen, auto narrow32, auto narrow64) {
    for (unsigned i = 0; i < infinity; ++i) {
      const auto low = static_cast<std::uint16_t>(i);
      const auto high = static_cast<std::uint16_t>(i + 1);
      const double a = static_cast<double>(widen(low));
      // The successor of the largest finite value would be the next power of two.
      const double b = i + 1 == infinity ? a + (a - static_cast<double>(widen(static_cast<std::uint16_t>(i - 1))))
                                         : static_cast<double>(widen(high));
      const double middle = (a + b) / 2;  // exact in double, and in float for all but the smallest bf16
      const auto even = (low & 1u) == 0 ? low : high;
      const double below = std::nextafter(middle, a), above = std::nextafter(middle, b);
      if (narrow64(middle) != even || narrow64(below) != low || narrow64(above) != high)
        FAIL("from double above bits " << i);
      if (narrow64(-middle) != (even | 0x8000u)) FAIL("from double below bits " << i);
      const auto middle32 = static_cast<float>(middle);
      if (static_cast<double>(middle32) != middle) continue;
      if (narrow32(middle32) != even) FAIL("from float at bits " << i);
      if (narrow32(std::nextafter(middle32, 0.0f)) != low) FAIL("from float below the middle above bits " << i);
      if (narrow32(std::nextafter(middle32, std::numeric_limits<float>::infinity())) != high)
        FAIL("from float above " << i);
    }
  };
  check(
      0x7c00, [](std::uint16_t v) { return f16_to_f32(v); }, [](float v) { return f32_to_f16(v); }, f64_to_f16);
  check(
      0x7f80, [](std::uint16_t v) { return bf16_to_f32(v); }, [](float v) { return f32_to_bf16(v); }, f64_to_bf16);
}

TEST_CASE("between two tf32 the nearest is taken, at the middle that away from zero") {
  const float step = std::ldexp(1.0F, -10);
  CHECK(round_to_tf32(1 + step) == 1 + step);
  CHECK(round_to_tf32(1 + step / 2) == 1 + step);
  CHECK(round_to_tf32(-1 - step / 2) == -1 - step);
  CHECK(round_to_tf32(std::nextafter(1 + step / 2, 1.0F)) == 1);
  CHECK(round_to_tf32(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(round_to_tf32(-std::numeric_limits<float>::infinity()) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(round_to_tf32(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("signed zeros, infinities and overflow keep their sign when narrowed") {
  CHECK(f32_to_f16(-0.0f) == 0x8000);
  CHECK(f32_to_bf16(-0.0f) == 0x8000);
  CHECK(f64_to_f16(-0.0) == 0x8000);
  CHECK(f32_to_f16(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(f32_to_f16(65519.996f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f64_to_f16(-1e300) == 0xfc00);
  CHECK(f64_to_bf16(1e300) == 0x7f80);
  CHECK(f64_to_f16(std::numeric_limits<double>::denorm_min()) == 0);
}
