#pragma once

#include <type_traits>

namespace astatide {

/// The least multiple that is not below a value of at least 0.
template <class T>
constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace astatide
