#include "compiler/tile/lower_merge.h"

#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/tile/lower_elements.h"

namespace astatide::tile {
namespace {

/// Threads that share a row, a warp: each reads neighbouring columns of the states.
constexpr int kThreads = 32;

/// Blocks take a row each; the loop over the parts runs inside.
Placement placement_of_merge(const Lowering& lowering, const Placement& of) {
  const AxisParts parts = *of.rfactor();
  PlacementBuilder out(of.name);
  out.tile({{lowering.axis, 1}}).rfactor(parts.axis, parts.loop, parts.parts);
  std::vector<LoopName> order = lowering.rows, blocks = lowering.rows;
  std::reverse(blocks.begin(), blocks.end());
  order.push_back(parts.loop);
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
class Merge {
 public:
  Merge(const Recurrence& recurrence, const std::vector<const Slot*>& references, KernelBuilder& builder,
        const std::map<std::string, StoredTensor>& states)
      : recurrence_(recurrence), references_(references), builder_(builder), states_(states) {}

  Kernel build() {
    Block out;
    for (const Slot& slot : recurrence_.slots) {
      const TileName whole = declare(slot, tile_base_of(builder_.lowering, slot));
      builder_.values.insert_or_assign(slot.name, variable(whole));
      parts_[slot.name] = declare(slot, slot.name + "_part");
      out.push_back({Fill{whole, unit_of(slot.op)}});
    }
    append(out, merge_references());
    append(out, merge_others());
    for (const RowValue& value : recurrence_.values)
      if (value.output) builder_.add_output(out, value);
    return builder_.finish(std::move(out));
  }

 private:
  TileName declare(const Slot& slot, const std::string& base) {
    std::vector<std::string> axes{builder_.nest.row};
    axes.insert(axes.end(), slot.extra.begin(), slot.extra.end());
    return builder_.declare(base, axes);
  }

  /// Runs a block for each part.
  void append(Block& out, Block body) const {
    if (body.empty()) return;
    for (Stmt& stmt : builder_.inside_loops(std::move(body), builder_.loops_outside())) out.push_back(std::move(stmt));
  }

  bool is_reference(const Slot& slot) const { return contains(references_, &slot); }

  void load(Block& out, const Slot& slot) const {
    const StoredTensor& from = states_.at(slot.name);
    out.push_back({Copy{parts_.at(slot.name), builder_.view(from.tensor, from.axes), Via::load, {}, 0}});
  }

  void merge(Block& out, const Slot& slot, const Expr& part) const {
    const Expr& whole = builder_.values.at(slot.name);
    out.push_back({builder_.map_over_tiles(whole.as<Variable>()->name, merged(slot.op, whole, part))});
  }

  Block merge_references() const {
    Block out;
    for (const Slot* slot : references_) {
      load(out, *slot);
      merge(out, *slot, variable(parts_.at(slot->name)));
    }
    return out;
  }

  Block merge_others() const {
    std::map<std::string, Expr> old_and_new;
    for (const Slot& slot : recurrence_.slots) {
      old_and_new.insert_or_assign(slot.name, variable(parts_.at(slot.name)));
      old_and_new.insert_or_assign(new_value_name(slot.name), builder_.values.at(slot.name));
    }
    Block loads, out;
    std::set<std::string> read;
    for (const Slot& slot : recurrence_.slots) {
      if (is_reference(slot)) continue;
      read.merge(free_variables(slot.move));
      load(loads, slot);
      merge(out, slot, substitute(slot.move, old_and_new));
    }
    for (const Slot* slot : references_)
      if (read.contains(slot->name)) load(loads, *slot);
    std::move(out.begin(), out.end(), std::back_inserter(loads));
    return loads;
  }

  const Recurrence& recurrence_;
  const std::vector<const Slot*>& references_;
  KernelBuilder& builder_;
  const std::map<std::string, StoredTensor>& states_;
  std::map<std::string, TileName> parts_;
};

}  // namespace

std::string tile_base_of(const Lowering& lowering, const Slot& slot) {
  return contains(lowering.algorithm.outputs, slot.name) ? slot.name + "_acc" : slot.name;
}

Kernel lower_merge(Lowering& lowering, const Recurrence& recurrence, const std::vector<const Slot*>& references,
                   const Placement& placement, const std::map<std::string, StoredTensor>& states) {
  const Placement own = placement_of_merge(lowering, placement);
  KernelBuilder builder(lowering, own, lowering.algorithm.name + "_merge");
  return Merge(recurrence, references, builder, states).build();
}

}  // namespace astatide::tile
