#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "api/check_reads.h"
#include "api/device_code.h"
#include "api/launch_plan.h"
#include "api/shapes.h"
#include "runtime/counters.h"

namespace astatide {

/// What a build gives, shared by every executable of the same request.
struct Compiled {
  Algorithm algorithm;
  tile::Program program;
  Target target;
  std::shared_ptr<const DeviceCode> code;
  std::vector<DeclaredTensor> declared;
  std::vector<AxisGroup> groups;
  ReadSites reads;
  LaunchPlan plan;
  std::map<std::string, std::string> directives;  // of a simulation: where its schedule speaks of what
  bool simulated = false;
  std::map<std::string, std::string> parts_of;  // of a merge: the input that holds an output of all parts
};

struct Executable::State {
  std::shared_ptr<const Compiled> compiled;
  BuildReport report;
};

}  // namespace astatide
