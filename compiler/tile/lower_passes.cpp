#include "compiler/tile/lower_passes.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace astatide::tile {

Kernel PassBuilder::build() {
  check_order();
  Block out;
  for (const std::string& name : planned_.loaded_stages) {
    const PassStage& stage = *passes_.stage(name);
    std::vector<std::string> axes{builder_.nest.row};
    axes.insert(axes.end(), stage.extra.begin(), stage.extra.end());
    const TileName tile = builder_.declare(name, axes);
    const StoredTensor& from = passes_.row_tensors.at(name);
    out.push_back({Copy{tile, builder_.view(from.tensor, from.axes), Via::load, {}, 0}});
    builder_.values.insert_or_assign(name, variable(tile));
  }
  pending_ = planned_.stages;
  while (!pending_.empty()) {
    const PassStage& stage = *passes_.stage(pending_.front());
    add_stage(out, stage);
    pending_.erase(pending_.begin());
  }
  for (const std::string& name : planned_.stored_stages) {
    const StoredTensor& to = passes_.row_tensors.at(name);
    const TileName tile = builder_.values.at(name).as<Variable>()->name;
    out.push_back({Copy{builder_.view(to.tensor, to.axes), tile, Via::store, {}, 0}});
  }
  for (const RowValue* value : planned_.outputs) builder_.add_output(out, *value);
  if (!planned_.stored.empty()) add_stored(out);
  return builder_.finish(builder_.inside_loops(std::move(out), builder_.loops_outside()));
}

void PassBuilder::check_order() const {
  if (builder_.loops_inside().empty()) return;
  throw UserError(planned_.placement->where,
                  "reorder of " + planned_.placement->name + ": rewrite: none passes over " + builder_.nest.column +
                      " once for each reduction, so its loop is the innermost",
                  {"rewrite: online carries the reductions in any order"});
}

/// Placed at a loop around the one over the axis: the whole row is there at once.
bool PassBuilder::has_strip(const std::string& name) const {
  const TiledElement* element = passes_.element(name);
  const Placement* placement = element ? element->placement : lowering_.schedule.find(name);
  if (!placement || placement->compute_root() || passes_.roots.contains(name)) return false;
  const auto at = placement->compute_at();
  if (!at) return false;
  const NestLoop* column = builder_.nest.over(builder_.nest.column);
  if (*at == column->name) return false;
  if (!builder_.nest.named(*at))
    throw UserError(placement->find(DirectiveKind::compute_at)->where,
                    "compute_at of " + placement->name + ": kernel " + planned_.name + " has no loop " + *at);
  return true;
}

TileName PassBuilder::declare_strip(const std::string& name) {
  const std::string& axis = builder_.nest.column;
  const auto bound = lowering_.bound_of(axis);
  if (!bound)
    throw UserError(planned_.placement->where,
                    name + " holds whole rows of " + axis + ", whose length " + to_string(lowering_.extent_of(axis)) +
                        " has no bound",
                    {"bound: {" + to_string(lowering_.extent_of(axis)) + ": 1024}"});
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (*bound < 0 || *bound > kMost)
    throw UserError(planned_.placement->where, name + " holds rows of " + std::to_string(*bound) +
                                                   " elements, at most " + std::to_string(kMost) + " can be held");
  const std::int64_t columns = builder_.nest.columns;
  const TileName tile = builder_.declare(passes_.tile_name(name) + "_row", {builder_.nest.row, axis}, Space::shared);
  // Whole tiles, so that a copy of a tile never passes the end.
  builder_.kernel.find(tile)->dims[1].extent =
      static_cast<int>(std::max<std::int64_t>(1, (*bound + columns - 1) / columns) * columns);
  return tile;
}

namespace {

Strip slice(KernelBuilder& builder, const TileName& strip, double absent) {
  Coordinate at = builder.coordinate(builder.nest.column);
  at.limit.reset();
  return {strip, {at}, absent};
}

}  // namespace

/// Some stage or store behind the current one reads it.
bool PassBuilder::is_read_later(const std::string& name, const std::set<std::string>& but) const {
  const auto reads = [&](const Expr& e) {
    for (const std::string& read : passes_.read_by(e))
      if (read == name) return true;
    return false;
  };
  for (const std::string& stage : pending_) {
    const std::set<std::string> direct = free_variables(passes_.stage(stage)->term);
    if (direct.contains(name)) return true;
    for (const std::string& weight : direct)
      if (passes_.weight(weight) && !but.contains(weight) && reads(variable(weight))) return true;
  }
  return !planned_.stored.empty() && !but.contains(planned_.stored) && reads(variable(planned_.stored));
}

void PassBuilder::fill_strip(Block& out, const std::string& name) {
  if (strips_.contains(name)) return;
  Block body;
  made_.clear();
  builder_.forget_terms();
  TileName target;
  if (const TiledElement* element = passes_.element(name)) {
    made_.insert(name);  // its value names its own product
    materialise(body, element->value);
    for (const Expr& predicate : element->where_predicates) materialise(body, predicate);
    builder_.add_element(body, *element, true);
    target = declare_strip(name);
  } else {
    const PassWeight& weight = *passes_.weight(name);
    materialise(body, weight.value);
    builder_.add_weight(body, {weight.name, weight.value, {}, weight.where}, false);
    // In place of an element that nothing else reads from here on.
    for (const std::string& read : free_variables(weight.value))
      if (strips_.contains(read) && passes_.element(read) && target.empty() && !is_read_later(read, {name}))
        target = strips_.at(read);
    if (target.empty()) target = declare_strip(name);
  }
  const TileName tile = builder_.values.at(name).as<Variable>()->name;
  body.push_back({Copy{slice(builder_, target, 0), tile, Via::store, {}, 0}});
  out.push_back(loop(std::move(body)));
  strips_[name] = target;
}

/// Strips that a pass reads are filled in front of it, elements before the weights that read them.
void PassBuilder::fill_strips(Block& out, const std::set<std::string>& needed) {
  for (const TiledElement& element : passes_.elements)
    if (needed.contains(element.names.back()) && has_strip(element.names.back())) fill_strip(out, element.names.back());
  for (const PassWeight& weight : passes_.weights)
    if (needed.contains(weight.name) && has_strip(weight.name)) fill_strip(out, weight.name);
}

void PassBuilder::copy_in(Block& loop, const std::string& name, CopyOperand from, double absent) {
  const TileName tile =
      builder_.declare_once(passes_.tile_name(name), {builder_.nest.row, builder_.nest.column}, Space::register_file);
  if (auto* view = std::get_if<View>(&from)) view->absent = absent;
  if (auto* strip = std::get_if<Strip>(&from)) strip->absent = absent;
  loop.push_back({Copy{tile, std::move(from), Via::load, {}, 0}});
  builder_.values.insert_or_assign(name, variable(tile));
}

void PassBuilder::materialise(Block& loop, const Expr& e) {
  const std::set<std::string> read = free_variables(e);
  // Elements and weights in the order of their definition: later ones may read earlier ones.
  for (const TiledElement& element : passes_.elements)
    if (read.contains(element.names.back())) materialise(loop, element.names.back());
  for (const PassWeight& weight : passes_.weights)
    if (read.contains(weight.name)) materialise(loop, weight.name);
}

void PassBuilder::materialise(Block& loop, const std::string& name) {
  if (!made_.insert(name).second) return;
  const TiledElement* element = passes_.element(name);
  // What a stored weight holds beyond the end is multiplied or masked away; an element's readers expect its value.
  const double absent = element ? element->absent : 0;
  if (const auto root = passes_.roots.find(name); root != passes_.roots.end() && planned_.stored != name) {
    const StoredTensor& from = root->second;
    copy_in(loop, name, builder_.view(from.tensor, from.axes), absent);
  } else if (strips_.contains(name)) {
    copy_in(loop, name, slice(builder_, strips_.at(name), absent), absent);
  } else if (element) {
    materialise(loop, element->value);
    for (const Expr& predicate : element->where_predicates) materialise(loop, predicate);
    builder_.add_element(loop, *element);
  } else {
    const PassWeight& weight = *passes_.weight(name);
    materialise(loop, weight.value);
    builder_.add_weight(loop, {weight.name, weight.value, {}, weight.where}, name == operand_);
  }
}

void PassBuilder::add_stage(Block& out, const PassStage& stage) {
  std::set<std::string> needed = passes_.read_by(stage.term);
  fill_strips(out, needed);
  const bool is_output = lowering_.program.find_tensor(stage.name) != nullptr;
  std::vector<std::string> axes{builder_.nest.row};
  axes.insert(axes.end(), stage.extra.begin(), stage.extra.end());
  const TileName tile = builder_.declare(is_output ? stage.name + "_acc" : stage.name, axes);
  out.push_back({Fill{tile, unit_of(stage.op)}});
  Block body;
  made_.clear();
  builder_.forget_terms();
  const auto* weight = stage.term.as<Variable>();
  const auto root = weight ? passes_.roots.find(weight->name) : passes_.roots.end();
  const std::vector<Expr> predicates = passes_.predicates_under(stage.term);
  if (stage.factor && !stage.masked && root != passes_.roots.end()) {
    const TileName lhs = builder_.declare_once(weight->name, {builder_.nest.row, builder_.nest.column}, Space::shared);
    body.push_back({Copy{lhs, builder_.view(root->second.tensor, root->second.axes), Via::vector, {}, 0}});
    builder_.add_product_of_term(body, tile, lhs, *stage.factor, stage.name, stage.where, predicates);
  } else {
    operand_ = stage.factor && weight ? weight->name : "";
    materialise(body, stage.term);
    operand_.clear();
    const TileName term = builder_.add_term(body, stage.name, stage.term, stage.masked, stage.op, predicates);
    if (stage.factor) {
      builder_.add_product_of_term(body, tile, term, *stage.factor, stage.name, stage.where, predicates);
    } else {
      body.push_back({RowReduce{tile, stage.op, term, true, std::nullopt}});
    }
  }
  out.push_back(loop(std::move(body)));
  builder_.values.insert_or_assign(stage.name, variable(tile));
}

void PassBuilder::add_stored(Block& out) {
  const std::string& name = planned_.stored;
  Block body;
  made_.clear();
  builder_.forget_terms();
  fill_strips(out, passes_.read_by(variable(name), true));
  materialise(body, name);
  const TileName tile = builder_.values.at(name).as<Variable>()->name;
  const StoredTensor& to = passes_.roots.at(name);
  body.push_back({Copy{builder_.view(to.tensor, to.axes), tile, Via::store, {}, 0}});
  if (const RowValue* output = planned_.output_along_axis; output && output->name != to.tensor) {
    TileName result = tile;
    if (!output->where_predicates.empty()) {
      result = builder_.declare_once(output->name + "_tile", {builder_.nest.row, builder_.nest.column});
      body.push_back({builder_.map(result, variable(name), output->where_predicates, 0)});
    }
    body.push_back({Copy{builder_.view(*output), result, Via::store, {}, 0}});
  }
  const NestLoop* column = builder_.nest.over(builder_.nest.column);
  if (column->grid) {
    std::move(body.begin(), body.end(), std::back_inserter(out));
  } else {
    out.push_back(loop(std::move(body)));
  }
}

}  // namespace astatide::tile
