// What a pass makes of a hand-written kernel, as text.
#pragma once

#include <string>

#include "compiler/pipeline.h"
#include "tests/support/tile_build.h"

namespace astatide::testing {

inline std::string text_of_body(const tile::Program& program) {
  std::string out;
  for (const tile::Stmt& stmt : program.kernels.at(0).body) out += tile::print(stmt);
  return out;
}

/// The body of a program's one kernel after one pass of the table.
inline std::string body_after(const std::string& pass_name, const tile::Program& program) {
  for (const Pass& pass : pass_table())
    if (pass.name == pass_name) return text_of_body(pass.run(program, *find_target("sm_80")));
  throw InternalError("no pass " + pass_name);
}

}  // namespace astatide::testing
