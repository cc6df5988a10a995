// Starts a program and collects what it says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace astatide::testing {

struct ProgramResult {
  int code = -1;  // 128 + the signal's number where a signal ended it
  std::string out;
  std::string err;
};

/// `words` without the program's own name. `environment` adds to, or replaces, the variables of this process; a
/// variable with an empty value is unset.
ProgramResult run_program(const std::filesystem::path& program, const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& environment = {});

/// The program `astatide`.
inline ProgramResult run_astatide(const std::vector<std::string>& words,
                                  const std::map<std::string, std::string>& environment = {}) {
  return run_program(program_path(), words, environment);
}

}  // namespace astatide::testing
