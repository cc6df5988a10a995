#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// The type of a tensor's elements. Arithmetic on the floating types is done in f32.
enum class ScalarType : std::uint8_t { f32, f16, bf16, f64, i32, i64, u8, boolean };

std::string_view name_of(ScalarType type);
std::optional<ScalarType> parse_scalar_type(std::string_view name);

constexpr int size_in_bytes(ScalarType type) {
  switch (type) {
    case ScalarType::f64:
    case ScalarType::i64:
      return 8;
    case ScalarType::f32:
    case ScalarType::i32:
      return 4;
    case ScalarType::f16:
    case ScalarType::bf16:
      return 2;
    case ScalarType::u8:
    case ScalarType::boolean:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(ScalarType type) {
  return type == ScalarType::f32 || type == ScalarType::f16 || type == ScalarType::bf16 || type == ScalarType::f64;
}

}  // namespace astatide
