#include "compiler/support/half.h"

#include <bit>
#include <cmath>

namespace astatide {
namespace {

// The float nearest to zero side of `value`, with the last bit set when anything was cut off. A later rounding to a
// format of at most 22 significand bits then sees on which side of a tie the double was.
float round_to_odd(double value) {
  float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value))
    bits -= 1;  // towards zero; infinity becomes the largest float
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  // 65520 is the tie between the largest f16, 65504, and the first value out of range.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Subnormal in f16: adding 0.5 puts the unit of f16's last place, 2^-24, into the last place of the float sum.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude - (112u << 23) + 0xfffu + odd;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bf16_to_f32(std::uint16_t bits) {
  std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  if ((wide & 0x7fffffffu) > 0x7f800000u) wide |= 0x400000u;
  return std::bit_cast<float>(wide);
}

std::uint16_t f64_to_f16(double value) { return f32_to_f16(round_to_odd(value)); }
std::uint16_t f64_to_bf16(double value) { return f32_to_bf16(round_to_odd(value)); }

float round_to_tf32(float value) {
  constexpr std::uint32_t kDropped = 13;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((bits + (1U << (kDropped - 1))) >> kDropped << kDropped);
}

void f32_to_f16(std::span<const float> from, std::span<std::uint16_t> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = f32_to_f16(from[i]);
}

void f16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = f16_to_f32(from[i]);
}

void f32_to_bf16(std::span<const float> from, std::span<std::uint16_t> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = f32_to_bf16(from[i]);
}

void bf16_to_f32(std::span<const std::uint16_t> from, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = bf16_to_f32(from[i]);
}

}  // namespace astatide
