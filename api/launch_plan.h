#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"
#include "runtime/stub/astatide_launch_rules.h"

// What every launch of a program decides, as expressions over its extents. Executable evaluates them for one launch,
// exported code holds them as C; what they are used for lies in astatide_launch_rules.h, which both compile.

namespace astatide {

inline constexpr std::int64_t kScratchAlignment = ASTATIDE_SCRATCH_ALIGNMENT;

/// How TMA sees a tensor: its dimensions in the order of the kernel's coordinates, columns, rows, then the others,
/// innermost first. One copy takes `rows` rows, with `run` as runs of so many along the faster dimension.
struct MapForm {
  std::vector<std::size_t> order;
  int rows = 0;
  std::optional<Expr> run;
};
MapForm map_form(const tile::Parameter& parameter, std::size_t rank);

struct KernelPlan {
  struct Axis {
    std::string var;
    Expr blocks;  // 0 or more; whole clusters
  };
  std::vector<Axis> grid;
  std::vector<tile::Parameter> parameters;

  bool is_persistent() const;
};

struct LaunchPlan {
  std::vector<KernelPlan> kernels;
  std::vector<tile::Tensor> scratch;   // in the order of their places in the workspace
  std::vector<tile::Tensor> counters;  // words of 32 bits, 0 before and after a launch
  /// The extent that launches choose, over the others and kResident: blocks of that kernel that the device holds.
  struct Chosen {
    std::string extent;
    Expr value;
    std::size_t kernel = 0;
  };
  std::optional<Chosen> chosen;
  static constexpr const char* kResident = "resident blocks";  // no name of an extent
};
LaunchPlan plan_launch(const tile::Program& program);

}  // namespace astatide
