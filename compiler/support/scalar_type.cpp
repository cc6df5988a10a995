#include "compiler/support/scalar_type.h"

#include <array>
#include <utility>

namespace astatide {
namespace {

constexpr std::array<std::pair<ScalarType, std::string_view>, 8> kNames{{{ScalarType::f32, "f32"},
                                                                         {ScalarType::f16, "f16"},
                                                                         {ScalarType::bf16, "bf16"},
                                                                         {ScalarType::f64, "f64"},
                                                                         {ScalarType::i32, "i32"},
                                                                         {ScalarType::i64, "i64"},
                                                                         {ScalarType::u8, "u8"},
                                                                         {ScalarType::boolean, "bool"}}};

}  // namespace

std::string_view name_of(ScalarType type) {
  for (const auto& [candidate, name] : kNames)
    if (candidate == type) return name;
  return "?";
}

std::optional<ScalarType> parse_scalar_type(std::string_view name) {
  for (const auto& [type, candidate] : kNames)
    if (candidate == name) return type;
  return std::nullopt;
}

}  // namespace astatide
