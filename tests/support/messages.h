// What a refusal says.
#pragma once

#include <string>

#include "compiler/support/diagnostic.h"

namespace astatide::testing {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The first message that an act is refused with, as it is printed.
template <class Error, class Act>
std::string message_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return format_diagnostic(error.diagnostics().front());
  }
  return "no error";
}

}  // namespace astatide::testing
