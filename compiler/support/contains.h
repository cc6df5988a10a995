#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

namespace astatide {

/// Whether a list, searched from its front, holds the value.
template <class Value>
bool contains(const std::vector<Value>& list, const std::type_identity_t<Value>& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace astatide
