#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "api/astatide_c.h"
#include "compiler/support/diagnostic.h"

// What every call of the C interface does: no exception leaves it, and what its caller passed is looked at.

namespace astatide {

/// The status of the exception that is being handled, which is kept in *error where there is room for it.
AstatideStatus keep_exception(AstatideError** error) noexcept;

template <class Act>
AstatideStatus guarded(AstatideError** error, const Act& act) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    act();
    return ASTATIDE_STATUS_OK;
  } catch (...) {
    return keep_exception(error);
  }
}

/// Refuses NULL.
template <class T>
T& needed(T* pointer, const char* name) {
  if (pointer == nullptr) throw UserError(std::string(name) + " is NULL");
  return *pointer;
}
inline std::string needed_text(const char* text, const char* name) { return &needed(text, name); }

void check_struct_size(const char* name, std::size_t given, std::size_t own);

/// A structure of the caller's; refuses NULL, and one of another version.
template <class T>
T& needed_struct(T* pointer, const char* name) {
  check_struct_size(name, needed(pointer, name).struct_size, sizeof(T));
  return *pointer;
}

/// An array of the caller's; refuses NULL in place of elements.
template <class T>
std::span<const T> elements(const T* data, std::size_t count, const char* name) {
  if (data == nullptr && count > 0)
    throw UserError(std::string(name) + " is NULL, and " + std::to_string(count) + " elements of it are given");
  return {data, count};
}

}  // namespace astatide
