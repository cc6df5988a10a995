// Builds examples/export/main.c with what `astatide export` wrote, and runs it.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/support/scalar_type.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace astatide::testing {

/// Lengths of causal_gqa: B, Hq, Hkv, Sq, Sk, D, Dv.
using Lengths = std::array<std::int64_t, 7>;
std::map<std::string, std::int64_t> extents_of(const Lengths& lengths);

/// Whether this machine has a C compiler.
bool has_c_compiler();

/// causal_gqa, exported and compiled as C11 with warnings as errors.
class ExportedProgram {
 public:
  ExportedProgram(const std::string& schedule, ScalarType dtype, const std::vector<std::string>& targets,
                  const Lengths& lengths);

  /// The folder with Q.bin, K.bin and V.bin, and after a run O.bin and L.bin.
  std::filesystem::path data() const { return folder_ / "data"; }
  /// What is exported.
  std::filesystem::path files() const { return folder_ / "exported"; }
  /// Inputs of zeros, for runs whose result is of no matter.
  void write_zeros(const Lengths& lengths) const;
  ProgramResult run(const Lengths& lengths, const std::map<std::string, std::string>& environment,
                    int device = 0) const;

 private:
  TemporaryFolder folder_;
  ScalarType dtype_;
};

}  // namespace astatide::testing
