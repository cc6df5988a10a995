#include "compiler/schedule/legality.h"

#include <algorithm>

#include "compiler/schedule/scheduled_rows.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

/// Reads inside the indices of a read, such as that of a page table, say where an operand lies and are none.
void add_reads(const Expr& e, const std::string& product_of, const Algorithm& algorithm, const std::string& needed_axis,
               std::vector<Operand>& operands) {
  const auto* read = e.as<Read>();
  if (read == nullptr) {
    for (const Expr& operand : children(e)) add_reads(operand, product_of, algorithm, needed_axis, operands);
    return;
  }
  std::set<std::string> axes = free_variables(e);
  const bool is_input = algorithm.find_input(read->tensor) != nullptr;
  if (is_input && (needed_axis.empty() || axes.count(needed_axis) > 0))
    operands.push_back({read->tensor, product_of, axes});
}

std::vector<Operand> find_operands(const Algorithm& algorithm, const Cascade& cascade) {
  std::vector<Operand> operands;
  for (const Element& element : cascade.elements) {
    if (!element.product) continue;
    add_reads(element.product->lhs, element.name, algorithm, "", operands);
    add_reads(element.product->rhs, element.name, algorithm, "", operands);
  }
  for (const Stage& stage : cascade.stages)
    for (const std::string& extra : stage.extra) add_reads(stage.term, stage.name, algorithm, extra, operands);
  return operands;
}

/// Reads multiplied with each other in a term: P and V of P * V, also where a quotient or more factors stand around
/// them.
void find_factors(const Expr& e, std::vector<Expr>& factors) {
  if (e.is_call(Op::mul)) {
    for (const Expr& operand : e.as<Call>()->args) find_factors(operand, factors);
  } else if (e.is_call(Op::div)) {
    find_factors(e.as<Call>()->args[0], factors);
  } else if (e.as<Read>() != nullptr) {
    factors.push_back(e);
  }
}

bool has_axis_beyond(const Expr& e, const Expr& other) {
  const std::set<std::string> theirs = free_variables(other);
  const std::set<std::string> own = free_variables(e);
  return std::any_of(own.begin(), own.end(), [&](const std::string& axis) { return theirs.count(axis) == 0; });
}

/// `name` is read as one of two factors each of which has an axis that the other lacks: an operand of a product of
/// tiles.
bool is_factor_in(const std::string& name, const Algorithm& algorithm) {
  bool found = false;
  for (const Func& func : algorithm.define) {
    visit(func.value, [&](const Expr& e) {
      const auto* reduce = e.as<Reduce>();
      if (reduce == nullptr || reduce->op != Reduction::sum) return;
      std::vector<Expr> factors;
      find_factors(reduce->body[0], factors);
      for (const Expr& factor : factors)
        for (const Expr& other : factors)
          found = found || (factor.as<Read>()->tensor == name && has_axis_beyond(factor, other) &&
                            has_axis_beyond(other, factor));
    });
  }
  return found;
}

std::set<std::string> names_in(const Expr& e) {
  std::set<std::string> names = free_variables(e);
  names.merge(tensors_read(e));
  return names;
}

}  // namespace

void suggest(std::vector<std::string>& notes, const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = word.size() > 1 ? nearest_name(word, candidates) : "";
  if (!near.empty()) notes.insert(notes.begin(), "did you mean " + near + "?");
}

std::vector<LoopName> LoopNest::places() const {
  const std::size_t first = block_loops == 0 ? 0 : block_loops - 1;
  return {order.begin() + static_cast<std::ptrdiff_t>(std::min(first, order.size())), order.end()};
}

LoopName LoopNest::axis_loop() const { return placement->tile_of(axis) ? axis + ".o" : axis; }

std::size_t LoopNest::position(const LoopName& loop) const {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), loop) - order.begin());
}

LegalityCheck::LegalityCheck(const Schedule& schedule, const Algorithm& algorithm, const Target& target,
                             const std::map<std::string, std::int64_t>& sizes, std::optional<ScalarType> input_type)
    : schedule(schedule),
      algorithm(algorithm),
      target(target),
      sizes(sizes),
      input_type(input_type),
      least(*find_target(schedule.target)),
      cascade(cascade_of(algorithm, schedule)),
      operands(find_operands(algorithm, cascade)) {}

bool LegalityCheck::is_output(const std::string& name) const { return contains(algorithm.outputs, name); }

bool LegalityCheck::is_factor(const std::string& name) const { return is_factor_in(name, algorithm); }

NameRole LegalityCheck::role_of(const std::string& name) const {
  if (algorithm.find_input(name) != nullptr) {
    const bool operand =
        std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return o.name == name; });
    return operand ? NameRole::input : NameRole::plain_input;
  }
  if (algorithm.find_func(name) == nullptr) return NameRole::unknown;
  for (const Element& element : cascade.elements)
    if (element.name == name)
      return element.product || is_output(name) || is_factor(name) ? NameRole::element : NameRole::inlined;
  for (const RowValue& value : cascade.values)
    if (value.name == name && contains(value.indices, cascade.axis)) return NameRole::weight;
  if (is_output(name)) return NameRole::row_output;
  const auto is_value = [&](const auto& value) { return value.name == name; };
  const bool row_value = std::any_of(cascade.values.begin(), cascade.values.end(), is_value) ||
                         std::any_of(cascade.stages.begin(), cascade.stages.end(), is_value);
  return row_value ? NameRole::row_value : NameRole::inlined;
}

const LoopNest* LegalityCheck::nest_of_root(const std::string& name) const {
  const auto found = std::find_if(nests.begin(), nests.end(), [&](const LoopNest& nest) { return nest.root == name; });
  return found == nests.end() ? nullptr : &*found;
}

bool LegalityCheck::is_root(const std::string& name) const { return nest_of_root(name) != nullptr; }

const LoopNest* LegalityCheck::main_nest() const {
  for (const LoopNest& nest : nests)
    if (role_of(nest.root) == NameRole::row_output) return &nest;
  return nullptr;
}

void LegalityCheck::assign_nests() {
  // A definition reads earlier ones only: from the last to the first, every reader is assigned before what it reads.
  const auto add = [](std::vector<const LoopNest*>& list, const LoopNest* nest) {
    if (std::find(list.begin(), list.end(), nest) == list.end()) list.push_back(nest);
  };
  for (auto func = algorithm.define.rbegin(); func != algorithm.define.rend(); ++func) {
    std::vector<const LoopNest*>& own = nests_by_name_[func->name];
    if (const LoopNest* root = nest_of_root(func->name)) own = {root};
    if (own.empty() && is_output(func->name)) {
      // An output without a place of its own leaves with the first kernel that reduces rows.
      for (const Func& first : algorithm.define)
        if (const LoopNest* nest = nest_of_root(first.name); nest != nullptr && nest->reduces && own.empty())
          own = {nest};
    }
    std::set<std::string> read = tensors_read(func->value);
    if (func->where_predicate) read.merge(tensors_read(*func->where_predicate));
    for (const std::string& name : read)
      for (const LoopNest* nest : std::vector(own)) add(nests_by_name_[name], nest);
  }
}

std::vector<const LoopNest*> LegalityCheck::nests_of(const std::string& name) const {
  const auto found = nests_by_name_.find(name);
  return found == nests_by_name_.end() ? std::vector<const LoopNest*>{} : found->second;
}

bool LegalityCheck::is_in(const std::string& name, const LoopNest& nest) const {
  const std::vector<const LoopNest*> at = nests_of(name);
  return name == nest.root || std::find(at.begin(), at.end(), &nest) != at.end();
}

std::vector<std::string> LegalityCheck::axes_of(const std::string& name) const {
  for (const Element& element : cascade.elements)
    if (element.name == name) return element.indices;
  for (const RowValue& value : cascade.values)
    if (value.name == name) return value.indices;
  std::set<std::string> axes;
  for (const Operand& operand : operands)
    if (operand.name == name) axes.insert(operand.axes.begin(), operand.axes.end());
  std::vector<std::string> known;
  for (const std::string& axis : axes)
    if (cascade.axis_extents.count(axis) > 0) known.push_back(axis);
  return known;
}

bool LegalityCheck::some_stage_reads_another() const {
  std::set<std::string> stages;
  for (const Stage& stage : cascade.stages) stages.insert(stage.name);
  const auto reads_stage = [&](const Expr& e) {
    const std::set<std::string> names = names_in(e);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return stages.count(name) > 0; });
  };
  return std::any_of(cascade.stages.begin(), cascade.stages.end(),
                     [&](const Stage& stage) { return reads_stage(stage.term); }) ||
         std::any_of(cascade.values.begin(), cascade.values.end(), [&](const RowValue& value) {
           return contains(value.indices, cascade.axis) && reads_stage(value.value);
         });
}

bool LegalityCheck::needs_whole_row(const std::string& name) const {
  return schedule.rewrite == RewriteMode::none && role_of(name) == NameRole::element && some_stage_reads_another();
}

std::vector<LoopName> LegalityCheck::legal_places(const std::string& name) const {
  const NameRole role = role_of(name);
  const std::vector<std::string> axes = axes_of(name);
  std::vector<LoopName> legal;
  bool first = true;
  for (const LoopNest* nest : nests_of(name)) {
    if (!nest->consistent) continue;
    std::vector<LoopName> here;
    for (const LoopName& loop : nest->places()) {
      const std::size_t at = nest->position(loop);
      bool fits = true;
      if (role == NameRole::input) {
        // All loops that choose the tile lie outside the copy, or at it.
        for (const std::string& axis : axes)
          for (const LoopName& chooser : {axis, axis + ".o"})
            if (const std::size_t p = nest->position(chooser); p < nest->order.size()) fits = fits && p <= at;
      } else {
        const bool innermost = at + 1 == nest->order.size();
        const bool around_axis = at + 2 == nest->order.size() && nest->order.back() == nest->axis_loop();
        fits = schedule.rewrite == RewriteMode::none && nest->reduces
                   ? around_axis || (innermost && !needs_whole_row(name))
                   : innermost;
      }
      if (fits) here.push_back(loop);
    }
    if (first) {
      legal = here;
    } else {
      std::erase_if(legal, [&](const LoopName& loop) { return !contains(here, loop); });
    }
    first = false;
  }
  return legal;
}

std::optional<std::int64_t> LegalityCheck::extent_of(const std::string& axis) const {
  const auto found = cascade.axis_extents.find(axis);
  if (found == cascade.axis_extents.end() || !tensors_read(found->second).empty()) return std::nullopt;
  for (const std::string& extent : free_variables(found->second))
    if (sizes.count(extent) == 0) return std::nullopt;
  // No elements in no groups: a group has no length.
  for (const Multiple& multiple : cascade.multiples) {
    const std::set<std::string> names = free_variables(multiple.of);
    const bool known = std::all_of(names.begin(), names.end(), [&](const auto& name) { return sizes.contains(name); });
    if (known && evaluate_integer(multiple.of, sizes) <= 0) return std::nullopt;
  }
  return evaluate_integer(found->second, sizes);
}

std::optional<std::int64_t> LegalityCheck::bound_of_axis(const std::string& axis) const {
  const auto found = cascade.axis_extents.find(axis);
  if (found == cascade.axis_extents.end() || !tensors_read(found->second).empty()) return std::nullopt;
  std::map<std::string, std::int64_t> values;
  for (const std::string& extent : free_variables(found->second)) {
    const auto bound = schedule.bound_of(extent);
    if (!bound) return std::nullopt;
    values[extent] = *bound;
  }
  return evaluate_integer(found->second, values);
}

Location LegalityCheck::place_of_key(const std::string& key) const {
  const auto found = schedule.places.find(key);
  return found == schedule.places.end() ? schedule.where : found->second;
}

}  // namespace astatide
