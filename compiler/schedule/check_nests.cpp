#include <algorithm>

#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"
#include "compiler/support/contains.h"

// Tiles, loops, blocks and threads of the kernels.

namespace astatide {
namespace {

constexpr std::int64_t kMostTileElements = std::int64_t{1} << 18;
constexpr int kWarp = 32;

Location place_of(const LoopNest& nest, DirectiveKind kind) {
  const Directive* directive = nest.placement->find(kind);
  return directive == nullptr ? nest.placement->where : directive->where;
}

DirectiveKind blocks_kind(const LegalityCheck& check) {
  return check.least.is_cuda() ? DirectiveKind::gpu_blocks : DirectiveKind::parallel;
}

std::string blocks_key(const LegalityCheck& check) { return std::string(directive_info(blocks_kind(check)).key); }

/// Row axes that a product of tiles can have in its rows: the other factor does not vary with them.
std::vector<std::string> tileable_rows(const LegalityCheck& check) {
  std::set<std::string> shared;
  for (const Element& element : check.cascade.elements)
    if (element.product) shared.merge(free_variables(element.product->rhs));
  for (const Stage& stage : check.cascade.stages)
    for (const Operand& operand : check.operands)
      if (operand.product_of == stage.name) shared.insert(operand.axes.begin(), operand.axes.end());
  std::vector<std::string> rows;
  for (const std::string& row : check.cascade.rows)
    if (shared.count(row) == 0) rows.push_back(row);
  return rows;
}

void check_tile(LegalityCheck& check, const LoopNest& nest) {
  const Location where = place_of(nest, DirectiveKind::tile);
  const std::vector<std::string> tileable = tileable_rows(check);
  const AxisNumbers tile = nest.placement->tile();
  std::string proposal;
  if (!tileable.empty()) proposal = tileable.back() + ": 64, ";
  proposal = "tile: {" + proposal + nest.axis + ": 64}";
  if (tile.empty()) {
    check.errors.error(where, nest.root + " has a kernel of its own and no tile", {proposal});
    return;
  }
  std::vector<std::string> tiled_rows;
  std::int64_t elements = 1;
  for (const auto& [axis, size] : tile) {
    if (contains(nest.cut, axis)) continue;
    elements *= std::clamp<std::int64_t>(size, 1, 1024);
    elements = std::min(elements, kMostTileElements + 1);
    if (axis == nest.axis) continue;
    if (contains(tileable, axis)) {
      tiled_rows.push_back(axis);
    } else if (contains(nest.axes, axis)) {
      check.errors.error(where,
                         "tile of " + nest.root + ": both factors of a product vary with " + axis +
                             ", so no tile can hold several of it",
                         {"legal are " + join(tileable) + (tileable.empty() ? "" : " and ") + nest.axis});
    } else if (check.cascade.axis_extents.count(axis) > 0) {
      check.errors.error(where, "tile of " + nest.root + ": " + axis + " is whole in a tile, no loop runs over it",
                         {"loops of " + nest.root + " run over " + join(nest.axes)});
    } else {
      std::vector<std::string> notes = {"loops of " + nest.root + " run over " + join(nest.axes)};
      suggest(notes, axis, nest.axes);
      check.errors.error(where, "tile of " + nest.root + ": there is no axis " + axis, notes);
    }
  }
  if (!nest.placement->tile_of(nest.axis))
    check.errors.error(where, "tile of " + nest.root + " does not name " + nest.axis + ", the axis that is reduced",
                       {proposal});
  if (tiled_rows.size() > 1)
    check.errors.error(
        where, "tile of " + nest.root + " names the row axes " + join(tiled_rows, " and ") + ", a tile has one");
  if (elements > kMostTileElements)
    check.errors.error(where,
                       "tile of " + nest.root + " has more than " + std::to_string(kMostTileElements) + " elements");
}

/// The loops named by a directive are loops of the nest.
bool check_loops(LegalityCheck& check, const LoopNest& nest, DirectiveKind kind, const std::vector<LoopName>& named) {
  bool right = true;
  for (const LoopName& loop : named) {
    if (contains(nest.loops, loop)) continue;
    right = false;
    const std::string key = std::string(directive_info(kind).key) + " of " + nest.root + ": ";
    const std::string axis = axis_of_loop(loop);
    std::vector<std::string> notes = {"loops of " + nest.root + " are " + join(nest.loops)};
    std::string problem = "there is no loop " + loop;
    if (loop.ends_with(".i")) {
      problem = loop + " is the loop inside a tile, which threads and vectors share";
    } else if (loop.ends_with(".s") || loop.ends_with(".w")) {
      problem = loop + " runs over parts of " + axis + ", and no rfactor splits it";
    } else if (contains(nest.axes, axis)) {
      problem =
          loop == axis ? axis + " is tiled, its loop is " + axis + ".o" : axis + " is not tiled, its loop is " + axis;
    } else if (check.cascade.axis_extents.count(axis) > 0) {
      problem = axis + " is whole in a tile, no loop runs over it";
    } else {
      suggest(notes, loop, nest.loops);
    }
    check.errors.error(place_of(nest, kind), key + problem, notes);
  }
  return right;
}

bool check_order(LegalityCheck& check, LoopNest& nest) {
  const bool written = nest.placement->find(DirectiveKind::reorder) != nullptr;
  if (written && !check_loops(check, nest, DirectiveKind::reorder, nest.order)) return false;
  std::vector<LoopName> missing;
  for (const LoopName& loop : nest.loops)
    if (!contains(nest.order, loop)) missing.push_back(loop);
  if (!missing.empty()) {
    const std::string where = written ? "reorder" : blocks_key(check);
    check.errors.error(place_of(nest, written ? DirectiveKind::reorder : blocks_kind(check)),
                       where + " of " + nest.root + " lacks " + join(missing),
                       {"loops of " + nest.root + " are " + join(nest.loops)});
    return false;
  }
  return nest.order.size() == nest.loops.size();
}

bool check_blocks(LegalityCheck& check, LoopNest& nest) {
  const std::string key = blocks_key(check);
  const std::vector<LoopName> blocks = nest.placement->blocks();
  const Location where = place_of(nest, blocks_kind(check));
  if (blocks.empty()) {
    std::vector<LoopName> outer = nest.loops;
    if (nest.reduces) std::erase(outer, nest.axis_loop());
    // Without rows one block computes all.
    if (outer.empty()) return true;
    std::reverse(outer.begin(), outer.end());
    check.errors.error(nest.placement->where, nest.root + " has a kernel of its own and no " + key,
                       {key + ": [" + join(outer) + "]"});
    return false;
  }
  const DirectiveKind kind =
      nest.placement->find(DirectiveKind::gpu_blocks) != nullptr ? DirectiveKind::gpu_blocks : DirectiveKind::parallel;
  if (!check_loops(check, nest, kind, blocks)) return false;
  if (nest.reduces && contains(blocks, nest.axis_loop())) {
    check.errors.error(where,
                       key + " of " + nest.root + ": " + nest.axis_loop() + " runs over the axis that " + nest.root +
                           " reduces, and blocks can't share a reduction",
                       {"leave " + nest.axis_loop() + " inside the block"});
    return false;
  }
  nest.block_loops = blocks.size();
  return true;
}

bool check_blocks_are_outermost(LegalityCheck& check, const LoopNest& nest) {
  const std::vector<LoopName> blocks = nest.placement->blocks();
  for (std::size_t n = 0; n < blocks.size() && n < nest.order.size(); ++n) {
    if (contains(blocks, nest.order[n])) continue;
    std::vector<LoopName> order;
    for (const bool wanted : {true, false})
      for (const LoopName& loop : nest.order)
        if (contains(blocks, loop) == wanted) order.push_back(loop);
    check.errors.error(
        place_of(nest, DirectiveKind::reorder),
        "reorder of " + nest.root + ": " + nest.order[n] + " lies outside loops that are spread over blocks",
        {"reorder: [" + join(order) + "]"});
    return false;
  }
  return true;
}

void check_descending(LegalityCheck& check, const LoopNest& nest) {
  const std::vector<LoopName> loops = nest.placement->descending();
  if (loops.empty() || !check_loops(check, nest, DirectiveKind::descending, loops)) return;
  const std::vector<LoopName> blocks = nest.placement->blocks();
  std::vector<LoopName> inside;
  for (const LoopName& loop : nest.order)
    if (!contains(blocks, loop)) inside.push_back(loop);
  for (const LoopName& loop : loops)
    if (contains(blocks, loop))
      check.errors.error(place_of(nest, DirectiveKind::descending),
                         "descending of " + nest.root + ": " + loop + " is spread over blocks, which run in any order",
                         {inside.empty() ? "leave descending out" : "loops inside a block are " + join(inside)});
}

void check_threads(LegalityCheck& check, const LoopNest& nest) {
  if (!check.least.is_cuda()) return;
  const auto threads = check.schedule.threads_of(*nest.placement);
  if (!check.schedule.warps.empty() && nest.placement->threads())
    check.errors.error(place_of(nest, DirectiveKind::threads), "threads of " + nest.root + ": warps says who computes",
                       {"leave threads out"});
  const Location where = place_of(nest, DirectiveKind::threads);
  if (!threads) {
    check.errors.error(nest.placement->where, nest.root + " has a kernel of its own and no threads",
                       {"threads: [16, 16]"});
    return;
  }
  const auto [rows, columns] = *threads;
  const std::int64_t count = std::int64_t{rows} * columns;
  if (rows <= 0 || columns <= 0) return;  // reported with the values
  const std::string of = "threads of " + nest.root + ": ";
  if (count % kWarp != 0)
    check.errors.error(where,
                       of + std::to_string(rows) + " x " + std::to_string(columns) + " = " + std::to_string(count) +
                           ", which is no multiple of a warp of 32",
                       {"threads: [16, 16]"});
  if (columns > kWarp || kWarp % columns != 0)
    check.errors.error(where, of + std::to_string(columns) +
                                  " columns, allowed are 1, 2, 4, 8, 16 and 32: the threads of "
                                  "a row lie in one warp");
  const int limit = check.target.threads_per_block, teams = nest.placement->teams();
  if (limit > 0 && count * teams > limit)
    check.errors.error(where, of + (teams > 1 ? std::to_string(teams) + " teams of " : "") + std::to_string(count) +
                                  " threads, a block of " + check.target.name + " has at most " +
                                  std::to_string(limit));
}

void check_grid(LegalityCheck& check, const LoopNest& nest) {
  std::int64_t blocks = 1;
  std::string product;
  const std::optional<AxisParts> parts = nest.placement->rfactor();
  for (const LoopName& loop : nest.placement->blocks()) {
    std::int64_t steps = 0;
    if (parts && loop == parts->loop) {
      if (parts->is_automatic()) return;  // as many as the machine holds
      const auto extent = parts->size != 0 ? check.extent_of(nest.axis) : std::nullopt;
      if (parts->size != 0 && !extent) return;
      steps = parts->parts != 0 ? parts->parts : std::max<std::int64_t>(1, (*extent - 1) / parts->size + 1);
    } else {
      const std::string axis = axis_of_loop(loop);
      const auto extent = check.extent_of(axis);
      if (!extent || *extent < 0) return;
      const std::int64_t tile = std::max<std::int64_t>(1, nest.placement->tile_of(axis).value_or(1));
      steps = *extent / tile + (*extent % tile != 0 ? 1 : 0);
    }
    product += (product.empty() ? "" : " * ") + std::to_string(steps);
    if (__builtin_mul_overflow(blocks, steps, &blocks)) blocks = INT64_MAX;
  }
  if (check.target.blocks_per_grid > 0 && blocks > check.target.blocks_per_grid)
    check.errors.error(place_of(nest, blocks_kind(check)),
                       blocks_key(check) + " of " + nest.root + ": " + product + " blocks, the grid of " +
                           check.target.name + " has at most " + std::to_string(check.target.blocks_per_grid));
}

/// Accumulators have the axis beyond the rows, and no product sums along it.
bool is_beyond_rows(const LegalityCheck& check, const std::string& axis) {
  const auto has_axis = [&](const Stage& stage) { return contains(stage.extra, axis); };
  const auto sums_along = [&](const Element& element) { return element.product && element.product->axis == axis; };
  const Cascade& cascade = check.cascade;
  return std::any_of(cascade.stages.begin(), cascade.stages.end(), has_axis) &&
         std::none_of(cascade.elements.begin(), cascade.elements.end(), sums_along);
}

/// Definitions that get a kernel: with compute_root, and one output that does not vary along the axis.
void find_nests(LegalityCheck& check) {
  bool main_found = false;
  for (const Placement& placement : check.schedule.placements) {
    const NameRole role = check.role_of(placement.name);
    const bool along_axis = role == NameRole::element || role == NameRole::weight;
    const bool inner = placement.compute_at().has_value() && !placement.compute_root();
    const bool main = role == NameRole::row_output && !main_found && !inner;
    if (!main && !(along_axis && (placement.compute_root() || (check.is_output(placement.name) && !inner)))) continue;
    if (check.is_root(placement.name)) continue;  // given twice, which is reported
    main_found = main_found || main;
    LoopNest nest;
    nest.root = placement.name;
    nest.placement = &placement;
    nest.axis = check.cascade.axis;
    nest.axes = check.cascade.rows;
    if (main && check.schedule.rewrite == RewriteMode::online)
      for (const auto& [axis, size] : placement.tile())
        if (is_beyond_rows(check, axis)) nest.cut.push_back(axis);
    nest.axes.insert(nest.axes.end(), nest.cut.begin(), nest.cut.end());
    nest.axes.push_back(nest.axis);
    nest.reduces = role != NameRole::element;
    for (const std::string& axis : nest.axes) nest.loops.push_back(placement.tile_of(axis) ? axis + ".o" : axis);
    if (const auto parts = placement.rfactor(); parts && parts->axis == nest.axis) {
      nest.loops.push_back(parts->loop);
      if (!parts->team_loop.empty()) nest.loops.push_back(parts->team_loop);
    }
    nest.order = placement.reorder();
    check.nests.push_back(std::move(nest));
  }
}

}  // namespace

void check_nests(LegalityCheck& check) {
  find_nests(check);
  for (LoopNest& nest : check.nests) {
    check_tile(check, nest);
    // In this order: without blocks there is no default order to check.
    const bool blocks = check_blocks(check, nest);
    const bool written = nest.placement->find(DirectiveKind::reorder) != nullptr;
    const bool order = (blocks || written) && check_order(check, nest);
    nest.consistent = blocks && order && check_blocks_are_outermost(check, nest);
    check_descending(check, nest);
    check_threads(check, nest);
    check_grid(check, nest);
  }
  check.assign_nests();
  std::vector<std::string> rows;
  for (const std::string& output : check.algorithm.outputs)
    if (check.role_of(output) == NameRole::row_output) rows.push_back(output);
  if (check.main_nest() == nullptr && !rows.empty())
    check.errors.error(check.schedule.where,
                       "no output has a place: " + join(rows, " or ") + " needs tile, " + blocks_key(check) +
                           (check.least.is_cuda() ? " and threads" : ""),
                       {rows[0] + ": {tile: {...}, " + blocks_key(check) + ": [...]}"});
  for (const std::string& output : check.algorithm.outputs)
    if (check.role_of(output) != NameRole::row_output && !check.is_root(output) &&
        check.schedule.find(output) == nullptr)
      check.errors.error(check.schedule.where,
                         "the output " + output + " varies along " + check.cascade.axis + " and has no place",
                         {output + ": {compute_root: true, ...}"});
}

}  // namespace astatide
