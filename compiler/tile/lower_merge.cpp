#include "compiler/tile/lower_merge.h"

#include <algorithm>
#include <numeric>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {
namespace {

/// Threads that share a row, a warp: each reads neighbouring columns of the states.
constexpr int kThreads = 32;

/// Registers of a thread that loads of a loop over parts may fill before the first of them is used.
constexpr int kLoadedRegisters = 96, kMostUnrolled = 16;

/// Rows in tiles, each from blocks of its own; the loop `over` the parts runs inside.
Placement placement_of_merge(const Lowering& lowering, const Placement& of, const AxisNumbers& rows,
                             const LoopName& over) {
  AxisParts parts = *of.rfactor();
  parts.team_loop.clear();
  parts.teams = 1;
  PlacementBuilder out(of.name);
  AxisNumbers tiles = rows;
  tiles.emplace_back(lowering.axis, 1);
  out.tile(std::move(tiles)).rfactor(parts);
  std::vector<LoopName> order, blocks;
  for (const std::string& row : lowering.rows)
    order.push_back(!rows.empty() && rows[0].first == row ? row + ".o" : row);
  blocks = order;
  // Teams are merged within a part of their block's.
  if (over != parts.loop) {
    order.push_back(parts.loop);
    blocks.push_back(parts.loop);
  }
  std::reverse(blocks.begin(), blocks.end());
  order.push_back(over);
  out.reorder(order);
  if (!blocks.empty()) out.gpu_blocks(blocks);
  out.threads(1, kThreads);
  if (const auto lanes = of.vectorize()) out.vectorize(*lanes);
  Placement placement = out.placement();
  placement.where = of.where;
  return placement;
}

/// Of combine (rewrite/README.md) for any number of states: first the references of all, then each other slot, moved
/// from the references of its part to those. So no sum is rescaled twice.
class MergeBody {
 public:
  MergeBody(const Recurrence& recurrence, const std::vector<const Slot*>& references, KernelBuilder& builder,
            const StoredStates& stored)
      : recurrence_(recurrence), references_(references), builder_(builder), stored_(stored) {
    for (const Slot& slot : recurrence.slots)
      are_states_ = are_states_ && stored.states.of_slot.at(slot.name) == variable(slot.name);
  }

  /// `finish` adds what is done with the merged states.
  Block build(const FinishMerge& finish) {
    Block out;
    for (const Slot& slot : recurrence_.slots) {
      const TileName whole = declare(slot, tile_base_of(builder_.lowering, slot));
      builder_.values.insert_or_assign(slot.name, variable(whole));
      for (const std::string& name : names_in(stored_.states.of_slot.at(slot.name))) declare_part(name);
      out.push_back({Fill{whole, unit_of(slot.op)}});
    }
    append(out, merge_references());
    append(out, merge_others());
    finish(builder_, out);
    return out;
  }

 private:
  TileName declare(const Slot& slot, const std::string& base) {
    std::vector<std::string> axes{builder_.nest.row};
    axes.insert(axes.end(), slot.extra.begin(), slot.extra.end());
    return builder_.declare(base, axes);
  }

  /// Those of the stored values that an expression reads.
  std::vector<std::string> names_in(const Expr& e) const {
    std::vector<std::string> out;
    for (const std::string& name : free_variables(e))
      if (stored_.parts.contains(name)) out.push_back(name);
    return out;
  }

  void declare_part(const std::string& name) {
    if (parts_.contains(name)) return;
    const StoredPart& part = stored_.parts.at(name);
    parts_[name] = builder_.declare(part.tile, builder_.tile_axes(part.axes));
  }

  /// Runs a block for each part.
  void append(Block& out, Block body) const {
    if (body.empty()) return;
    const int unroll = unroll_of(body);
    for (Stmt& stmt : builder_.inside_loops(std::move(body), builder_.loops_outside())) {
      std::get<For>(stmt.node).unroll = unroll;
      std::get<For>(stmt.node).padded = unroll > 1 && are_states_;
      out.push_back(std::move(stmt));
    }
  }

  /// What waits for memory here is a row's chain of additions, which is short: so many loads at once.
  int unroll_of(const Block& body) const {
    const int threads = builder_.kernel.threads() * builder_.kernel.teams;
    if (threads == 0) return 1;
    std::int64_t registers = 0;
    for (const Stmt& stmt : body)
      if (const auto* copy = std::get_if<Copy>(&stmt.node)) {
        const std::int64_t elements = builder_.kernel.find(std::get<TileName>(copy->dst))->element_count();
        registers += (elements + threads - 1) / threads;
      }
    return static_cast<int>(
        std::clamp<std::int64_t>(kLoadedRegisters / std::max<std::int64_t>(1, registers), 1, kMostUnrolled));
  }

  bool is_reference(const Slot& slot) const { return contains(references_, &slot); }

  /// What an expression reads of a part, once.
  void load(Block& out, std::set<std::string>& loaded, const Expr& e) const {
    for (const std::string& name : names_in(e)) {
      if (!loaded.insert(name).second) continue;
      const StoredPart& part = stored_.parts.at(name);
      View view = builder_.view(part.read, builder_.tile_axes(part.axes));
      for (const Slot& slot : recurrence_.slots)
        if (are_states_ && slot.name == name) view.absent = unit_of(slot.op);
      out.push_back({Copy{parts_.at(name), std::move(view), Via::load, {}, 0}});
    }
  }

  void merge(Block& out, const Slot& slot) const {
    std::map<std::string, Expr> tiles;
    for (const auto& [name, tile] : parts_) tiles.insert_or_assign(name, variable(tile));
    for (const Slot& other : recurrence_.slots)
      tiles.insert_or_assign(new_value_name(other.name), builder_.values.at(other.name));
    const Expr part = substitute(move_of_part(slot, stored_.states), tiles);
    const Expr& whole = builder_.values.at(slot.name);
    out.push_back({builder_.map_over_tiles(whole.as<Variable>()->name, merged(slot.op, whole, part))});
  }

  Block merge_references() const {
    Block out;
    std::set<std::string> loaded;
    for (const Slot* slot : references_) {
      load(out, loaded, stored_.states.of_slot.at(slot->name));
      merge(out, *slot);
    }
    return out;
  }

  Block merge_others() const {
    Block loads, out;
    std::set<std::string> loaded, read;
    for (const Slot& slot : recurrence_.slots) {
      if (is_reference(slot)) continue;
      read.merge(free_variables(slot.move));
      load(loads, loaded, stored_.states.of_slot.at(slot.name));
      merge(out, slot);
    }
    for (const Slot* slot : references_)
      if (read.contains(slot->name)) load(loads, loaded, stored_.states.of_slot.at(slot->name));
    std::move(out.begin(), out.end(), std::back_inserter(loads));
    return loads;
  }

  const Recurrence& recurrence_;
  const std::vector<const Slot*>& references_;
  KernelBuilder& builder_;
  const StoredStates& stored_;
  bool are_states_ = true;  // what is stored are the states themselves: those of no element change nothing
  std::map<std::string, TileName> parts_;  // tiles of what is stored, by name
};

}  // namespace

std::string tile_base_of(const Lowering& lowering, const Slot& slot) {
  return contains(lowering.algorithm.outputs, slot.name) ? slot.name + "_acc" : slot.name;
}

StoredStates states_in(const std::map<std::string, StoredTensor>& tensors) {
  StoredStates out;
  for (const auto& [slot, stored] : tensors) {
    StoredPart part{{stored.tensor, {}}, stored.axes, slot + "_part"};
    for (const std::string& axis : stored.axes) part.read.indices.push_back(variable(axis));
    out.parts.emplace(slot, std::move(part));
    out.states.of_slot.emplace(slot, variable(slot));
  }
  return out;
}

std::vector<const Slot*> references_of_moves(const Recurrence& recurrence) {
  std::vector<const Slot*> out;
  for (const Slot& slot : recurrence.slots) {
    const bool is_read = std::any_of(recurrence.slots.begin(), recurrence.slots.end(), [&](const Slot& other) {
      return free_variables(other.move).contains(new_value_name(slot.name));
    });
    if (!is_read) continue;
    if (!(slot.move == variable(slot.name)))
      throw UserError(slot.where,
                      slot.name + " moves with " + (slot.references.empty() ? "others" : slot.references.front()) +
                          " and others move with " + slot.name + ": one level of references can be merged, not two");
    out.push_back(&slot);
  }
  return out;
}

std::vector<const NestLoop*> loops_that_share(const Lowering& lowering, const Nest& nest) {
  std::vector<const NestLoop*> loops;
  for (const NestLoop& loop : nest.loops)
    if (loop.grid && loop.axis != lowering.parts_axis) loops.push_back(&loop);
  return loops;
}

void add_outputs(const Recurrence& recurrence, KernelBuilder& builder, Block& block) {
  for (const RowValue& value : recurrence.values)
    if (value.output) builder.add_output(block, value);
}

Kernel lower_merge(Lowering& lowering, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                   const Placement& placement, const StoredStates& states, const std::string& kernel) {
  const Placement own = placement_of_merge(lowering, placement, {}, placement.rfactor()->loop);
  KernelBuilder builder(lowering, own, kernel);
  Block body = MergeBody(recurrence, references, builder, states).build([&](KernelBuilder& merge, Block& out) {
    add_outputs(recurrence, merge, out);
  });
  return builder.finish(std::move(body));
}

namespace {

/// A merge by all threads of a block, of the rows of its tile: over the parts that the loop `over` counts.
Block merge_in_block(KernelBuilder& builder, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                     const Placement& placement, const StoredStates& states, const LoopName& over,
                     const std::string& parts_axis, const FinishMerge& finish) {
  Lowering& lowering = builder.lowering;
  // A warp a row, or, where rows are fewer, several; a worker of the CPU takes one row at a time.
  const int warps = std::max(1, builder.kernel.threads() * builder.kernel.teams / kThreads);
  const int rows = std::gcd(warps, builder.nest.rows);
  AxisNumbers tiled;
  if (!lowering.rows.empty()) tiled.emplace_back(builder.nest.row, rows);
  const Placement own = placement_of_merge(lowering, placement, tiled, over);
  KernelBuilder merge(builder, own);
  merge.kernel.thread_rows = builder.kernel.thread_rows;
  merge.kernel.thread_columns = builder.kernel.thread_columns;
  merge.kernel.teams = builder.kernel.teams;
  Block body = MergeBody(recurrence, references, merge, states).build(finish);

  // Rows of a block that its loops run over are run over here, too.
  for (auto row = lowering.rows.rbegin(); row != lowering.rows.rend(); ++row) {
    const NestLoop& outer = *builder.nest.over(*row);
    const NestLoop& inner = *merge.nest.over(*row);
    if (outer.grid && *row != builder.nest.row) continue;
    For loop{inner.var, Expr(0), inner.count, For::Kind::serial, false, std::move(body), {}};
    if (outer.grid) {
      const Expr tiles(builder.nest.rows / rows);
      loop.begin = variable(outer.var) * tiles;
      loop.end = min(loop.begin + tiles, inner.count);
    }
    body = {Stmt{std::move(loop)}};
  }
  // The part of this block, or team, has the name of their axis.
  const std::string part = merge.names.fresh("part");
  body = transform_blocks(body, [&](Block block) {
    for (Stmt& stmt : block)
      if (auto* loop = std::get_if<For>(&stmt.node); loop && loop->var == parts_axis) loop->var = part;
    return block;
  });
  body = substitute(body, {{parts_axis, variable(part)}});
  for (Mem& mem : merge.kernel.mems) builder.kernel.mems.push_back(std::move(mem));
  builder.names = merge.names;
  return body;
}

}  // namespace

Block merge_by_last_block(KernelBuilder& builder, const Recurrence& recurrence,
                          const std::vector<const Slot*>& references, const Placement& placement,
                          const StoredStates& states, const std::string& counters) {
  Lowering& lowering = builder.lowering;
  // Which blocks merge together is what the grid says, the parts left out.
  Arrive arrive{builder.names.fresh("last"), lowering.extent_of(lowering.parts_axis), counters, {}, {}};
  for (const NestLoop* loop : loops_that_share(lowering, builder.nest)) arrive.indices.push_back(variable(loop->var));
  for (const auto& [name, part] : states.parts) arrive.stores.push_back(part.read.tensor);
  Block body =
      merge_in_block(builder, recurrence, references, placement, states, placement.rfactor()->loop, lowering.parts_axis,
                     [&](KernelBuilder& merge, Block& out) { add_outputs(recurrence, merge, out); });
  const Expr last = variable(arrive.flag);
  return {{std::move(arrive)}, {If{last, If::Uniform::block, false, std::move(body)}}};
}

Block merge_teams(KernelBuilder& builder, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                  const Placement& placement, const StoredStates& states, const FinishMerge& finish) {
  return merge_in_block(builder, recurrence, references, placement, states, placement.rfactor()->team_loop,
                        builder.lowering.teams_axis, finish);
}

}  // namespace astatide::tile
