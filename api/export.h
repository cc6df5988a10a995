#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "compiler/schedule/target.h"
#include "runtime/kernel_cache.h"

namespace astatide {

struct ExportRequest {
  Algorithm algorithm;
  Schedule schedule;
  std::string schedule_name;  // for people
  std::string name;           // what files and functions begin with; empty: the algorithm's
  std::vector<Target> targets;
  /// Every extent. Those that tiles cover whole (D, Dv) are fixed, the others are arguments of a launch.
  std::map<std::string, std::int64_t> sizes;
  ScalarType dtype = ScalarType::f32;
};

struct ExportedFile {
  std::string name;  // without a folder
  std::string bytes;
};

/// Compiles for each target, and writes NAME.h (what a caller sees), NAME.c (what its launches decide), NAME_code.c
/// (the machine code of all targets), NAME.TARGET.cubin, and the files of runtime/stub, which are the same for all
/// exports. Needs NVRTC, no device. Throws UserError for what a stub can't check or C can't name, beside what
/// Engine::build throws.
std::vector<ExportedFile> export_kernels(const ExportRequest& request, runtime::KernelCache& cache);

}  // namespace astatide
