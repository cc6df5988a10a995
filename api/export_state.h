#pragma once

#include <string>
#include <vector>

#include "api/c_text.h"
#include "api/check_reads.h"
#include "api/export.h"
#include "api/launch_plan.h"
#include "api/shapes.h"
#include "compiler/cuda/emit.h"

// What the writers of exported files work on. Not an interface of the library.

namespace astatide {

/// One target's share of an export.
struct ExportedTarget {
  Target target;
  tile::Program program;
  cuda::Source source;
  LaunchPlan plan;
  std::string machine_code;
};

struct Export {
  const ExportRequest& request;
  std::string name;
  std::vector<DeclaredTensor> declared;
  std::vector<AxisGroup> groups;
  ReadSites reads;
  std::vector<ExportedTarget> targets;  // 1 or more

  /// Of every target: what a build fixes does not depend on it.
  const tile::Program& program() const { return targets.front().program; }
  const tile::Tensor& tensor(const std::string& tensor_name) const { return *program().find_tensor(tensor_name); }
  std::string prefixed(const std::string& rest) const { return name + "_" + rest; }
};

std::string print_export_header(const Export& exported);
std::string print_export_source(const Export& exported);
std::string print_export_code(const Export& exported);
/// The checks and launches of one target, as functions whose names end in `suffix`.
std::string print_target_functions(const Export& exported, const ExportedTarget& target, const std::string& suffix);

}  // namespace astatide
