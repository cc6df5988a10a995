#include <algorithm>

#include "compiler/schedule/rescale.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"
#include "compiler/tile/lower_elements.h"
#include "compiler/tile/lower_merge.h"
#include "compiler/tile/lower_rescale.h"

namespace astatide::tile {
namespace {

/// new(old) = old * factor, or old itself: a share of a sum is moved like the whole.
bool is_scaling(const Expr& move, const std::string& slot) {
  if (move == variable(slot)) return true;
  const auto* c = move.as<Call>();
  if (!c || (c->op != Op::mul && c->op != Op::absorb)) return false;
  for (int side : {0, 1}) {
    const bool scaled = is_scaling(c->args[side], slot);
    if (scaled && !free_variables(c->args[1 - side]).contains(slot)) return true;
  }
  return false;
}

class RecurrenceLowering {
 public:
  RecurrenceLowering(const Algorithm& algorithm, const Recurrence& recurrence, const Schedule& schedule,
                     const LowerOptions& options)
      : recurrence_(recurrence),
        lowering_(algorithm, schedule, options, recurrence.axis, recurrence.rows, recurrence.axis_extents,
                  recurrence.values) {}

  Program run() {
    const Placement& placement = main_placement();
    check_slots();
    for (const Slot& slot : recurrence_.slots)
      if (is_reference(slot)) references_.push_back(&slot);
    check_rescale(lowering_.schedule, recurrence_, references_);
    lowering_.check_elements(recurrence_.elements);
    if (const auto parts = placement.rfactor())
      lowering_.parts_axis = lowering_.add_axis(recurrence_.axis + "_s", count_of(*parts));
    if (placement.teams() > 1)
      lowering_.teams_axis = lowering_.add_axis(recurrence_.axis + "_w", Expr(placement.teams()));
    add_state_tensors(placement);
    KernelBuilder builder(lowering_, placement, lowering_.algorithm.name + (in_parts() ? "_parts" : ""));
    builder_ = &builder;
    builder.kernel.teams = placement.teams();
    if (in_parts()) name_part();
    if (!chosen_.empty()) lowering_.program.parts = chosen_parts();
    check_places(placement);
    for (const Slot& slot : recurrence_.slots) {
      std::vector<std::string> axes{builder.nest.row};
      axes.insert(axes.end(), slot.extra.begin(), slot.extra.end());
      builder.values.insert_or_assign(slot.name, variable(builder.declare(tile_base_of(lowering_, slot), axes)));
    }
    Block body = state_in_memory_ ? state_in_memory() : in_teams() ? state_of_teams(placement) : state_in_registers();
    const bool by_last_block = in_parts() && placement.merge() == MergeBy::last_block;
    if (by_last_block) {
      Block merge =
          merge_by_last_block(builder, recurrence_, references_, placement, states_in(state_tensors_), arrivals_);
      if (may_be_whole()) merge = {if_parts(true, std::move(merge))};
      body = joined({std::move(body), std::move(merge)});
    }
    lowering_.program.kernels.push_back(builder.finish(std::move(body)));
    if (in_parts() && !by_last_block)
      lowering_.program.kernels.push_back(lower_merge(lowering_, recurrence_, references_, placement,
                                                      states_in(state_tensors_), lowering_.algorithm.name + "_merge"));
    return std::move(lowering_.program);
  }

 private:
  /// The output that has loops of its own.
  const Placement& main_placement() {
    for (const Placement& placement : lowering_.schedule.placements)
      for (const RowValue& value : recurrence_.values)
        if (value.output && value.name == placement.name) return placement;
    return nothing_;
  }

  bool in_parts() const { return !lowering_.parts_axis.empty(); }
  bool in_teams() const { return !lowering_.teams_axis.empty(); }

  /// How many parts there are.
  Expr count_of(const AxisParts& parts) {
    part_size_ = parts.size;
    if (parts.parts != 0) return Expr(parts.parts);
    // Without an element there is a part, too: someone has to write the outputs.
    if (parts.size != 0) return max(Expr(1), ceil_div(lowering_.extent_of(recurrence_.axis), Expr(parts.size)));
    chosen_ = lowering_.add_chosen_extent(recurrence_.axis + "_parts");
    return variable(chosen_);
  }

  ChosenParts chosen_parts() const {
    ChosenParts out{chosen_, Expr(1), Expr(1), builder_->kernel.name};
    for (const NestLoop& loop : builder_->nest.loops) {
      // One number for all items, before any tensor is read: that of the longest. Without heads there are no groups of
      // them either, and nothing is to be divided by none.
      const Expr count = transform(without_data(loop.count), [](const Expr& node) {
        if (!node.is_call(Op::floor_div)) return node;
        const std::vector<Expr>& args = node.as<Call>()->args;
        return floor_div(args[0], max(args[1], Expr(1)));
      });
      if (loop.axis == recurrence_.axis) out.most = count;
      if (loop.grid && loop.axis != lowering_.parts_axis) out.blocks = out.blocks * count;
    }
    return out;
  }

  /// A launch may find that one part holds all. Nobody else then waits for its states: its block knows what the outputs
  /// are. (Who merges in a kernel of its own always comes.)
  bool may_be_whole() const {
    return !arrivals_.empty() && !state_in_memory_ && !lowering_.extent_of(lowering_.parts_axis).as<Integer>();
  }
  Stmt if_parts(bool several, Block body) const {
    const Expr& count = lowering_.extent_of(lowering_.parts_axis);
    return {If{several ? less(Expr(1), count) : less(count, Expr(2)), If::Uniform::block, false, std::move(body)}};
  }
  /// The end of a block that has the state of a part.
  Block keep(KernelBuilder& builder) const {
    if (!may_be_whole()) return store(builder);
    Stmt whole = if_parts(false, outputs(builder));
    return {std::move(whole), if_parts(true, store(builder))};
  }

  void name_part() {
    const std::string& part = lowering_.parts_axis;
    part_begin_ = builder_->names.fresh(part + "_begin");
    part_end_ = builder_->names.fresh(part + "_end");
    builder_->end_of_part = variable(builder_->names.fresh(part + "_limit"));
  }

  bool is_reference(const Slot& slot) const {
    return std::any_of(recurrence_.slots.begin(), recurrence_.slots.end(),
                       [&](const Slot& other) { return contains(other.references, slot.name); }) ||
           std::any_of(recurrence_.weights.begin(), recurrence_.weights.end(),
                       [&](const Weight& weight) { return free_variables(weight.value).contains(slot.name); }) ||
           std::any_of(recurrence_.slots.begin(), recurrence_.slots.end(), [&](const Slot& other) {
             return other.name != slot.name && free_variables(other.term).contains(slot.name);
           });
  }

  void check_slots() const {
    for (const Slot& slot : recurrence_.slots) {
      if (is_reference(slot) && !(slot.move == variable(slot.name)))
        throw UserError(slot.where,
                        slot.name + " moves with " + (slot.references.empty() ? "others" : slot.references.front()) +
                            " and others move with " + slot.name + ": one level of references can be lowered, not two",
                        {"rewrite: none computes one reduction after another"});
      if (is_reference(slot) && !slot.extra.empty())
        throw UserError(slot.where, slot.name + " is read by later terms and varies with " + slot.extra.front() +
                                        ", which no tile over " + recurrence_.axis + " has");
      if (!slot.extra.empty() && !slot.factor)
        throw UserError(slot.where,
                        "slot " + slot.name + ": contribution does not factor into a tile over " + recurrence_.axis +
                            " and a (" + recurrence_.axis + "," + slot.extra.front() + ") tile",
                        {"write it as a product with one factor that varies with " + slot.extra.front()});
      if (slot.extra.size() > 1)
        throw UserError(slot.where, "slot " + slot.name + " has the axes " + slot.extra[0] + " and " + slot.extra[1] +
                                        " beyond the rows, a tile has one");
      if (slot.factor && slot.op != Reduction::sum)
        throw UserError(slot.where,
                        "slot " + slot.name + ": a product of tiles is a sum, not a " + std::string(name_of(slot.op)));
      if (slot.factor && slot.extra.empty())
        throw InternalError("slot " + slot.name + " has a factor and no axis for it");
    }
  }

  /// State lives in global memory where loops over rows lie inside the loop that carries it. That of parts is left
  /// there.
  void add_state_tensors(const Placement& placement) {
    FreshNames scratch = lowering_.names;
    const Nest nest = make_nest(lowering_, placement, scratch);
    bool inside = false;
    for (const NestLoop& loop : nest.loops) {
      if (loop.axis == nest.column && loop.grid)
        throw UserError(placement.where,
                        loop.name + " runs over the axis that is reduced, and blocks can't share a reduction",
                        {"leave " + loop.name + " inside the block"});
      state_in_memory_ = state_in_memory_ || (inside && !loop.grid);
      inside = inside || loop.axis == nest.column;
    }
    if (state_in_memory_ && !nest.cut.empty())
      throw UserError(
          placement.where,
          "tiles of " + placement.name + " hold parts of " + nest.cut.begin()->first +
              ", and the state between tiles of " + recurrence_.axis +
              " lies in global memory, where all "
              "of them would store it",
          {"loops over rows outside " + recurrence_.axis, "leave " + nest.cut.begin()->first + " out of tile"});
    if (!state_in_memory_ && !in_parts()) return;
    if (in_parts() && placement.merge() == MergeBy::last_block) {
      std::vector<Expr> counts;
      for (const NestLoop* loop : loops_that_share(lowering_, nest)) counts.push_back(loop->count);
      arrivals_ = lowering_.add_counters("arrivals", std::move(counts));
    }
    for (const Slot& slot : recurrence_.slots) {
      // Parts of a row lie side by side: who merges them finds all by one address.
      std::vector<std::string> axes = recurrence_.rows;
      if (in_parts()) axes.push_back(lowering_.parts_axis);
      axes.insert(axes.end(), slot.extra.begin(), slot.extra.end());
      state_tensors_[slot.name] = {lowering_.add_scratch(slot.name + (in_parts() ? "_parts" : "_state"), axes), axes};
    }
  }

  void check_places(const Placement& placement) const {
    const NestLoop& innermost = builder_->nest.loops.back();
    for (const Placement& other : lowering_.schedule.placements) {
      const auto at = other.compute_at();
      if (at && &other != &placement && *at != innermost.name)
        throw UserError(other.find(DirectiveKind::compute_at)->where,
                        "compute_at of " + other.name + ": at " + *at + ", and rewrite: online computes it at " +
                            innermost.name + ", the innermost loop",
                        {"compute_at: " + innermost.name});
    }
  }

  static TileName tile_in(const KernelBuilder& builder, const Slot& slot) {
    return builder.values.at(slot.name).as<Variable>()->name;
  }
  TileName tile_of(const Slot& slot) const { return tile_in(*builder_, slot); }

  Block units() const {
    Block out;
    for (const Slot& slot : recurrence_.slots) out.push_back({Fill{tile_of(slot), unit_of(slot.op)}});
    return out;
  }

  Block outputs(KernelBuilder& builder) const {
    Block out;
    add_outputs(recurrence_, builder, out);
    return out;
  }

  Block load() const {
    Block out;
    for (const Slot& slot : recurrence_.slots) {
      const auto& [tensor, axes] = state_tensors_.at(slot.name);
      out.push_back({Copy{tile_of(slot), builder_->view(tensor, axes), Via::load, {}, 0}});
    }
    return out;
  }
  Block store(KernelBuilder& builder) const {
    Block out;
    for (const Slot& slot : recurrence_.slots) {
      const auto& [tensor, axes] = state_tensors_.at(slot.name);
      out.push_back({Copy{builder.view(tensor, axes), tile_in(builder, slot), Via::store, {}, 0}});
    }
    return out;
  }

  static Block joined(std::vector<Block> blocks) {
    Block out;
    for (Block& block : blocks) std::move(block.begin(), block.end(), std::back_inserter(out));
    return out;
  }

  Stmt reduced_loop(Block body) const {
    Stmt loop = builder_->reduced_loop(std::move(body));
    if (std::get<For>(loop.node).kind == For::Kind::once && rescale() != RescaleMode::plain)
      throw UserError(place_of_rescale(lowering_.schedule),
                      "rescale: " + std::string(name_of(rescale())) + " would have no effect: one tile holds all of " +
                          recurrence_.axis + ", so no reference moves",
                      {"rescale: plain"});
    return loop;
  }

  /// The loop over all tiles, or over those of a part: as many iterations in each, those at the end may have fewer. All
  /// teams of a block go through them together, so that what they read lies side by side.
  Block loop_over_tiles(Block body) {
    Stmt stmt = reduced_loop(std::move(body));
    if (!in_parts()) return {std::move(stmt)};
    For& loop = std::get<For>(stmt.node);
    const std::string& part = lowering_.parts_axis;
    if (loop.kind == For::Kind::once)
      throw UserError(builder_->nest.where, "rfactor would have no effect: one tile holds all of " + recurrence_.axis,
                      {"leave rfactor out", "smaller tiles along " + recurrence_.axis});
    const int stride = builder_->nest.over(recurrence_.axis)->stride();
    const Expr each = part_size_ != 0 ? Expr(part_size_ / stride) : ceil_div(loop.end, lowering_.extent_of(part));
    Let first{part_begin_, min(variable(part) * each, loop.end)};
    Let last{part_end_, min(variable(part_begin_) + each, loop.end)};
    Block out{{std::move(first)}, {std::move(last)}};
    loop.begin = variable(part_begin_);
    loop.end = variable(part_end_);
    out.push_back({Let{builder_->end_of_part->as<Variable>()->name,
                       min(loop.end * Expr(stride), lowering_.end_of(recurrence_.axis))}});
    out.push_back(std::move(stmt));
    return out;
  }

  /// Where a team leaves the state of a slot for the others. Rows a multiple of all banks apart would lie in the same.
  StoredPart part_of_team(const Slot& slot) {
    constexpr std::int64_t kBanks = 32, kPadding = 8;
    const NestLoop* rows = builder_->nest.over(builder_->nest.row);
    StoredPart part{{"", {variable(lowering_.teams_axis)}}, slot.extra, slot.name + "_part"};
    std::vector<std::int64_t> extents;
    if (rows) {
      part.read.indices.push_back(variable(builder_->nest.row) - variable(rows->var) * Expr(rows->step));
      extents.push_back(rows->step);
    }
    for (const std::string& axis : slot.extra) {
      const std::int64_t extent = builder_->extent_of(axis);
      part.read.indices.push_back(variable(axis));
      extents.push_back(extent % kBanks == 0 ? extent + kPadding : extent);
    }
    part.read.tensor = lowering_.add_block_tensor(slot.name + "_teams", extents);
    return part;
  }

  /// Each team leaves its state in the block's shared memory, and all threads merge them.
  Block state_of_teams(const Placement& placement) {
    StoredStates states;
    Block loop = loop_over_tiles(step());
    Block team = joined({units(), std::move(constants_), std::move(loop)});
    for (const Slot& slot : recurrence_.slots) {
      StoredPart part = part_of_team(slot);
      team.push_back(
          {Copy{builder_->view(part.read, builder_->tile_axes(part.axes)), tile_of(slot), Via::store, {}, 0}});
      states.states.of_slot.emplace(slot.name, variable(slot.name));
      states.parts.emplace(slot.name, std::move(part));
    }
    Block out = builder_->inside_loops(std::move(team), builder_->loops_outside());
    std::get<For>(out.front().node).kind = For::Kind::teams;
    Block merged =
        merge_teams(*builder_, recurrence_, references_, placement, states, [&](KernelBuilder& merge, Block& block) {
          block = joined({std::move(block), keep(merge)});
        });
    return joined({std::move(out), std::move(merged)});
  }

  Block state_in_registers() {
    Block loop = loop_over_tiles(step());
    Block finish = in_parts() ? keep(*builder_) : outputs(*builder_);
    return builder_->inside_loops(joined({units(), std::move(constants_), std::move(loop), std::move(finish)}),
                                  builder_->loops_outside());
  }

  Block state_in_memory() {
    const auto inside = builder_->loops_inside();
    Block init = builder_->inside_loops(joined({units(), store(*builder_)}), inside);
    Block one = step();
    Block body =
        builder_->inside_loops(joined({std::move(constants_), load(), std::move(one), store(*builder_)}), inside);
    Block loop = loop_over_tiles(std::move(body));
    Block finish;
    if (!in_parts()) finish = builder_->inside_loops(joined({load(), outputs(*builder_)}), inside);
    return builder_->inside_loops(joined({std::move(init), std::move(loop), std::move(finish)}),
                                  builder_->loops_outside());
  }

  /// One tile of the reduced axis: elements, then references and all that moves with them, then the other slots.
  Block step() {
    std::vector<Expr> reads;
    for (const Weight& weight : recurrence_.weights) reads.push_back(weight.value);
    for (const Slot& slot : recurrence_.slots) reads.push_back(slot.term);
    const std::vector<TiledElement> elements = merge_elements(recurrence_.elements, reads, lowering_.schedule);
    Block out;
    for (const TiledElement& element : elements) builder_->add_element(out, element);
    add_references(out, elements);
    for (const Weight& weight : recurrence_.weights) builder_->add_weight(out, weight, only_operand(weight));
    for (const Slot& slot : recurrence_.slots)
      if (!is_reference(slot)) absorb_tile(out, slot, elements);
    if (rescale() != RescaleMode::plain) add_slack(out);
    return out;
  }

  RescaleMode rescale() const { return lowering_.schedule.rescale.mode; }

  /// Says of the step's advance how far its references may fall behind.
  void add_slack(Block& out) {
    const RescaleBounds bounds = rescale_bounds(lowering_.schedule, narrowest_weights(out, builder_->kernel));
    Advance::Slack slack;
    slack.grow = bounds.grow;
    slack.over = bounds.over;
    const std::map<std::string, Expr> tiles = old_and_new_tiles();
    for (const Slot* reference : references_) {
      const Expr growth = builder_->without_coordinates(substitute(*reference->growth, tiles), constants_);
      slack.growth = reference == references_.front() ? growth : max(slack.growth, growth);
      if (rescale() == RescaleMode::optimistic) slack.witnesses.push_back(parts_.at(reference->witness));
    }
    for (Stmt& stmt : out)
      if (auto* advance = std::get_if<Advance>(&stmt.node)) advance->slack = slack;
  }

  std::map<std::string, Expr> old_and_new_tiles() const {
    std::map<std::string, Expr> tiles = builder_->values;
    for (const Slot& slot : recurrence_.slots)
      tiles.insert_or_assign(new_value_name(slot.name), variable(new_value_name(tile_of(slot))));
    return tiles;
  }

  bool only_operand(const Weight& weight) const {
    for (const Weight& other : recurrence_.weights)
      if (free_variables(other.value).contains(weight.name)) return false;
    for (const Slot& slot : recurrence_.slots)
      if (free_variables(slot.term).contains(weight.name) && !(slot.factor && slot.term == variable(weight.name)))
        return false;
    return true;
  }

  /// Those of the elements that a term reads, through weights too.
  std::vector<Expr> predicates(const Slot& slot, const std::vector<TiledElement>& elements) const {
    Expr term = slot.term;
    for (auto weight = recurrence_.weights.rbegin(); weight != recurrence_.weights.rend(); ++weight)
      term = substitute(term, {{weight->name, weight->value}});
    return predicates_of(term, elements);
  }

  void add_references(Block& out, const std::vector<TiledElement>& elements) {
    Advance advance;
    for (const Slot& slot : recurrence_.slots) {
      if (!is_reference(slot)) continue;
      const TileName term =
          builder_->add_term(out, slot.name, slot.term, slot.masked, slot.op, predicates(slot, elements));
      const TileName candidate = builder_->declare(slot.name + "_tile", {builder_->nest.row});
      out.push_back({RowReduce{candidate, slot.op, term, false, std::nullopt}});
      advance.updates.push_back({tile_of(slot), slot.op, candidate});
    }
    const std::map<std::string, Expr> tiles = old_and_new_tiles();
    for (const Slot& slot : recurrence_.slots)
      if (!is_reference(slot) && !(slot.move == variable(slot.name)))
        advance.moving.push_back(
            {tile_of(slot), builder_->without_coordinates(substitute(slot.move, tiles), constants_)});
    if (!advance.updates.empty()) out.push_back({std::move(advance)});
  }

  void absorb_tile(Block& out, const Slot& slot, const std::vector<TiledElement>& elements) {
    const std::vector<Expr> where = predicates(slot, elements);
    const TileName term = builder_->add_term(out, slot.name, slot.term, slot.masked, slot.op, where);
    if (slot.factor) {
      builder_->add_product_of_term(out, tile_of(slot), term, *slot.factor, slot.name, slot.where, where);
      if (on_tensor_cores(out)) check_weight_range(recurrence_, slot, narrowest_weights(out, builder_->kernel));
      return;
    }
    // Lanes may each carry a share of the slot only if nothing needs the whole between the tiles.
    if (!state_in_memory_ && !slot.read_in_loop && is_scaling(slot.move, slot.name) &&
        !is_witness(lowering_.schedule, references_, slot)) {
      out.push_back({RowReduce{tile_of(slot), slot.op, term, true, std::nullopt}});
      return;
    }
    const TileName part = builder_->declare(slot.name + "_tile", {builder_->nest.row});
    parts_[slot.name] = part;
    out.push_back({RowReduce{part, slot.op, term, false, std::nullopt}});
    const Expr value = merged(slot.op, variable(tile_of(slot)), variable(part));
    out.push_back({Map{tile_of(slot), std::nullopt, value, {}, std::nullopt, {}}});
  }

  const Recurrence& recurrence_;
  const Placement nothing_;
  Lowering lowering_;
  KernelBuilder* builder_ = nullptr;
  std::vector<const Slot*> references_;
  std::map<std::string, TileName> parts_;  // sums over one tile, by slot
  Block constants_;                        // of rows, that the advance reads
  std::map<std::string, StoredTensor> state_tensors_;
  bool state_in_memory_ = false;       // between the tiles of the axis
  std::string part_begin_, part_end_;  // tiles
  std::int64_t part_size_ = 0;         // elements; 0: as many as the number of parts gives
  std::string arrivals_;               // counters of the blocks whose states one of them merges
  std::string chosen_;                 // the extent that says how many parts there are, if launches choose
};

}  // namespace

Program lower_recurrence(const Algorithm& algorithm, const Recurrence& recurrence, const Schedule& schedule,
                         const LowerOptions& options) {
  return RecurrenceLowering(algorithm, recurrence, schedule, options).run();
}

}  // namespace astatide::tile
