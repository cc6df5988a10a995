#pragma once

#include <string>
#include <string_view>

#include "tests/support/tile_build.h"

namespace astatide::tile::build {

/// What verify says of a program after a pass; nothing where it keeps every rule.
inline std::string fault_of(const Program& program, std::string_view pass = "lower") {
  try {
    verify(program, pass);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

}  // namespace astatide::tile::build
