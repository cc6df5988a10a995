#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace astatide {

/// Bit patterns of IEEE binary16 (f16) and bfloat16 (bf16). All narrowing conversions round to nearest, ties to even,
/// overflow to infinity, keep signed zeros and subnormals, and turn every NaN into a quiet NaN of the same sign.
std::uint16_t f32_to_f16(float value);
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);
float bf16_to_f32(std::uint16_t bits);

/// From double in one rounding: going by way of float would round twice.
std::uint16_t f64_to_f16(double value);
std::uint16_t f64_to_bf16(double value);

/// The nearest number with 10 bits behind the point, halves away from zero, as cvt.rna.tf32 rounds (PTX ISA).
float round_to_tf32(float value);

/// Element by element; the spans have equal lengths.
void f32_to_f16(std::span<const float> from, std::span<std::uint16_t> to);
void f16_to_f32(std::span<const std::uint16_t> from, std::span<float> to);
void f32_to_bf16(std::span<const float> from, std::span<std::uint16_t> to);
void bf16_to_f32(std::span<const std::uint16_t> from, std::span<float> to);

}  // namespace astatide
