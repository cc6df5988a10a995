#pragma once

#include <cstdint>
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
#include "runtime/slots.h"

namespace astatide {

/// What launches with equal shapes, strides, types, scalars and extents have in common.
struct SettledLaunch {
  std::vector<TensorView> views;          // in the order of the declarations, without memory
  std::map<std::string, double> scalars;  // as given
  Extents given;
  Extents extents;                       // all, without what launches choose
  bool has_mask_map = false;             // from an earlier launch
  std::int64_t workspace_bytes = 0;      // of scratch tensors
  std::unique_ptr<BoundLaunch> kernels;  // none: there is nothing to write
};

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
  std::map<std::string, std::string> parts_of;    // of a merge: the input that holds an output of all parts
  mutable runtime::Slots<SettledLaunch> settled;  // dies before the code
};

struct Executable::State {
  std::shared_ptr<const Compiled> compiled;
  BuildReport report;
};

}  // namespace astatide
