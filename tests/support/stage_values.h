// The values of a tile program after a stage of the compiler.
#pragma once

#include <catch2/catch.hpp>
#include <string_view>

#include "compiler/tile/interpret.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {

/// Requires what the interpreter makes of a program to be what is expected; else the program is printed.
inline void require_stage_values(std::string_view stage, const tile::Program& program, const Algorithm& algorithm,
                                 const Arguments& arguments, const std::map<std::string, DoubleTensor>& expected) {
  const double found = distance(tile::interpret(program, algorithm, arguments), expected);
  if (found < kTolerance) return;
  INFO("after " << stage << ":\n" << tile::print(program));
  REQUIRE(found < kTolerance);
}

}  // namespace astatide::testing
