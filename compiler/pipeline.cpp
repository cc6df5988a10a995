#include "compiler/pipeline.h"

#include <array>

#include "compiler/passes/close_shares.h"
#include "compiler/passes/fold_exponents.h"
#include "compiler/passes/fold_factors.h"
#include "compiler/passes/fold_units.h"
#include "compiler/passes/forward_maps.h"
#include "compiler/passes/hoist_row_invariants.h"
#include "compiler/passes/hold_operands.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/insert_barriers.h"
#include "compiler/passes/join_loops.h"
#include "compiler/passes/map_masks.h"
#include "compiler/passes/order_tiles.h"
#include "compiler/passes/overlap.h"
#include "compiler/passes/peel_first.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/passes/relax_rescale.h"
#include "compiler/passes/search_rows.h"
#include "compiler/passes/skip_tiles.h"
#include "compiler/passes/specialize_roles.h"
#include "compiler/passes/split_absorb.h"
#include "compiler/passes/split_masked_loops.h"
#include "compiler/passes/stage_outputs.h"
#include "compiler/passes/stage_tiles.h"
#include "compiler/passes/take_turns.h"
#include "compiler/rewrite/recurrence.h"
#include "compiler/schedule/approximations.h"
#include "compiler/schedule/scheduled_rows.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower.h"

namespace astatide {
namespace {

// In this order.
constexpr std::array kPasses{
    Pass{"skip_tiles", skip_tiles, "on GPUs no tile begins behind what its kernel stores"},
    Pass{"map_masks", map_masks, "no kernel asks for a map of masks: its tiles are listed, loops run over the list"},
    Pass{"split_masked_loops", split_masked_loops,
         "full tiles test nothing that bounds their loop, empty tiles are not run"},
    Pass{"search_rows", search_rows, "on GPUs no element is tested by what a monotone tensor holds"},
    Pass{"peel_first", peel_first, "the first tile of what is overlapped is computed by itself"},
    Pass{"fold_units", fold_units, "a loop that runs once merges with no unit"},
    Pass{"relax_rescale", relax_rescale, "no advance is left: new references and moves are maps"},
    Pass{"forward_maps", forward_maps, "no map makes a tile for one other map alone"},
    Pass{"fold_exponents", fold_exponents,
         "on tensor cores a weight is one multiply-add and one power of two an element"},
    Pass{"fold_factors", fold_factors, "on tensor cores an element is multiplied once by what is the same for all"},
    Pass{"hoist_row_invariants", hoist_row_invariants, "no map over a tile computes what is constant in a row"},
    Pass{"split_absorb", split_absorb,
         "on tensor cores a tile is scaled by finite numbers of its rows, or in a branch"},
    Pass{"overlap", overlap, "a delayed product runs behind the product of the next tile"},
    Pass{"order_tiles", order_tiles,
         "tiles have an order: those of the longest loops come first where blocks start in it"},
    Pass{"stage_tiles", stage_tiles, "every operand of a product lives in shared memory or registers"},
    Pass{"stage_outputs", stage_outputs, "tma stores tiles that live in shared memory"},
    Pass{"hold_operands", hold_operands, "mma_sync has left operands that stay in registers where they fit"},
    Pass{"specialize_roles", specialize_roles, "with producers, each statement is of one role"},
    Pass{"take_turns", take_turns, "consumers that take turns start products in them alone"},
    Pass{"insert_barriers", insert_barriers, "no thread reads what another has not finished"},
    Pass{"close_shares", close_shares, "no share of a lane is read as a whole"},
    Pass{"join_loops", join_loops, "on FMA units the loops over an axis are one again"},
    Pass{"infer_layouts", infer_layouts, "every tile has a layout, every product a family"},
    Pass{"plan_memory", plan_memory, "no decision is left"},
};

/// Inlined definitions and split loops multiply statements; a schedule must not exhaust the machine.
constexpr std::size_t kMostStatements = 20000;

void check_program(const tile::Program& program, const Location& where, std::string_view stage) {
  const std::size_t count = tile::statement_count(program);
  if (count > kMostStatements)
    throw UserError(where,
                    "the program has " + std::to_string(count) + " statements after " + std::string(stage) +
                        ", at most " + std::to_string(kMostStatements) + " are compiled",
                    {"fewer predicates or smaller definitions would fit"});
  tile::verify(program, stage);
}

/// Extents of the axes that tiles cover whole, those that are neither rows nor reduced by the cascade, and what the
/// schedule says.
/// `reduction` is a cascade or a recurrence.
template <class Reduction>
std::map<std::string, std::int64_t> known_in(const Reduction& reduction, const Schedule& schedule,
                                             const std::map<std::string, std::int64_t>& sizes) {
  std::map<std::string, Expr> axes = reduction.axis_extents;
  axes.erase(reduction.axis);
  for (const std::string& row : reduction.rows) axes.erase(row);
  std::set<std::string> names(schedule.known.begin(), schedule.known.end());
  for (const auto& [axis, extent] : axes) names.merge(free_variables(extent));
  std::map<std::string, std::int64_t> known;
  for (const std::string& name : names)
    if (const auto value = sizes.find(name); value != sizes.end()) known.insert(*value);
  return known;
}

/// Where stands what no directive alone is the cause of, such as tiles that need too much memory.
Location place_of_tiles(const Schedule& schedule) {
  for (const Placement& placement : schedule.placements)
    if (const Directive* tile = placement.find(DirectiveKind::tile)) return tile->where;
  return schedule.where;
}

/// What `act` gives. Problems that have no place get this one.
template <class Act>
tile::Program with_places(const Location& where, const Act& act) {
  try {
    return act();
  } catch (const MachineError&) {
    throw;
  } catch (const UserError& error) {
    std::vector<Diagnostic> problems = error.diagnostics();
    for (Diagnostic& problem : problems)
      if (problem.where.file.empty()) problem.where = where;
    throw UserError(std::move(problems));
  }
}

tile::Program run_passes(tile::Program program, const CompileOptions& options, const Location& where,
                         const TraceHook& trace) {
  check_program(program, where, "lower");
  if (trace) trace("lower", program);
  for (const Pass& pass : kPasses) {
    tile::Program next = pass.run(program, options.target);
    // Most passes have nothing to do for most schedules, and to compare is less work than to verify.
    if (next == program)
      tile::verify_unchanged(program, pass.name);
    else
      check_program(program = std::move(next), where, pass.name);
    if (trace) trace(pass.name, program);
  }
  return program;
}

}  // namespace

std::span<const Pass> pass_table() { return kPasses; }

std::map<std::string, std::int64_t> known_extents(const Algorithm& algorithm, const Schedule& schedule,
                                                  const std::map<std::string, std::int64_t>& sizes) {
  return known_in(cascade_of(algorithm, schedule), schedule, sizes);
}

std::map<std::string, std::int64_t> known_extents(const Merge& merge,
                                                  const std::map<std::string, std::int64_t>& sizes) {
  std::map<std::string, std::int64_t> known = known_in(merge.recurrence, {}, sizes);
  std::erase_if(known, [&](const auto& extent) { return merge.algorithm.find_extent(extent.first) == nullptr; });
  return known;
}

tile::Program compile(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                      const TraceHook& trace) {
  check_legal(schedule, algorithm, options.target, options.sizes, options.dtype);
  const Cascade cascade = cascade_of(algorithm, schedule);
  tile::LowerOptions lowering;
  lowering.target = options.target;
  lowering.known = known_in(cascade, schedule, options.sizes);
  lowering.dtype = options.dtype;
  return with_places(place_of_tiles(schedule), [&] {
    tile::Program program = schedule.rewrite == RewriteMode::online
                                ? tile::lower_recurrence(algorithm, derive_online(cascade), schedule, lowering)
                                : tile::lower_cascade(algorithm, cascade, schedule, lowering);
    if (!algorithm.updates.empty()) tile::add_updates(program, algorithm, lowering);
    program.multiples = cascade.multiples;
    for (tile::Kernel& kernel : program.kernels) kernel.dependent = schedule.dependent_launch;
    if (schedule.fast_math)
      for (const Approximation& one : approximations_of(options.target)) program.approximate.push_back(one.op);
    return run_passes(std::move(program), options, schedule.where, trace);
  });
}

tile::Program compile_merge(const Merge& merge, const CompileOptions& options, const TraceHook& trace) {
  tile::LowerOptions lowering;
  lowering.target = options.target;
  lowering.known = known_extents(merge, options.sizes);
  lowering.dtype = options.dtype;
  return run_passes(tile::lower_merge_of_outputs(merge, lowering), options, merge.algorithm.where, trace);
}

}  // namespace astatide
