#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "compiler/algorithm/algorithm.h"
#include "compiler/rewrite/derive_merge.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/visibility.h"
#include "compiler/tile/ir.h"

namespace ASTATIDE_PUBLIC astatide {

/// What a compilation depends on, beside the algorithm and the schedule.
struct CompileOptions {
  Target target;
  /// Every extent whose value the kernel may rely on. Only those that tiles cover whole (D, Dv) are used; the others
  /// stay run-time values, and a kernel serves all of their lengths.
  std::map<std::string, std::int64_t> sizes;
  ScalarType dtype = ScalarType::f32;
};

/// A step of the pass table. Value in, value out; `run` may refuse with a UserError.
struct Pass {
  std::string_view name;
  tile::Program (*run)(const tile::Program& program, const Target& target);
  /// What holds from here on, in words.
  std::string_view holds_after;
};
std::span<const Pass> pass_table();

/// Called with the program after lowering ("lower") and after each pass: traces, goldens and `emit` use the same hook.
using TraceHook = std::function<void(std::string_view stage, const tile::Program& program)>;

/// Algorithm and schedule to a program that every decision has been made for. Verified after each pass. Throws
/// UserError with all problems of the schedule.
tile::Program compile(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                      const TraceHook& trace = {});

/// The kernel that merges the outputs of parts, through the same passes.
tile::Program compile_merge(const Merge& merge, const CompileOptions& options, const TraceHook& trace = {});

/// Extents that a compilation of this schedule fixes: those of axes that no loop tiles.
std::map<std::string, std::int64_t> known_extents(const Algorithm& algorithm, const Schedule& schedule,
                                                  const std::map<std::string, std::int64_t>& sizes);
std::map<std::string, std::int64_t> known_extents(const Merge& merge, const std::map<std::string, std::int64_t>& sizes);

}  // namespace astatide
