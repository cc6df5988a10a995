#include "compiler/tile/lower_nest.h"

#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide::tile {
namespace {

/// Definitions that are no output are not here: a tile may have their name.
std::set<std::string> names_that_tiles_avoid(const Algorithm& algorithm,
                                             const std::map<std::string, Expr>& axis_extents) {
  std::set<std::string> names;
  for (const Extent& extent : algorithm.extents) names.insert(extent.name);
  for (const Scalar& scalar : algorithm.scalars) names.insert(scalar.name);
  for (const Input& input : algorithm.inputs) names.insert(input.name);
  names.insert(algorithm.outputs.begin(), algorithm.outputs.end());
  for (const auto& [axis, extent] : axis_extents) names.insert(axis);
  return names;
}

}  // namespace

Lowering::Lowering(const Algorithm& algorithm_, const Schedule& schedule_, const LowerOptions& options_,
                   std::string axis_, std::vector<std::string> rows_, std::map<std::string, Expr> axis_extents,
                   const std::vector<RowValue>& values)
    : algorithm(algorithm_),
      schedule(schedule_),
      options(options_),
      axis(std::move(axis_)),
      rows(std::move(rows_)),
      names(names_that_tiles_avoid(algorithm_, axis_extents)),
      axis_extents_(std::move(axis_extents)) {
  program.name = algorithm.name;
  for (const Extent& extent : algorithm.extents) program.extents.push_back(extent.name);
  for (const Scalar& scalar : algorithm.scalars) program.scalars.push_back(scalar.name);
  for (const auto& [extent, value] : schedule.bound) program.bounds.emplace(extent, value);
  for (const std::string& extent : schedule.known) {
    const auto value = options.known.find(extent);
    if (value == options.known.end())
      throw UserError(schedule.places.contains("known") ? schedule.places.at("known") : schedule.where,
                      "known: the value of " + extent + " is compiled in, and none is given",
                      {"--shape " + extent + "=8"});
    program.known.insert(*value);
  }
  for (const Input& input : algorithm.inputs)
    program.tensors.push_back({input.name, input.dtype.value_or(options.dtype), input.dims, Tensor::Role::input,
                               input.monotone, algorithm.updates_input(input.name)});
  for (const std::string& output : algorithm.outputs) {
    const auto value = std::find_if(values.begin(), values.end(), [&](const RowValue& v) { return v.name == output; });
    if (value == values.end()) throw InternalError("output " + output + " is not defined");
    // An output with an axis beyond the rows is data of the caller's type; one number a row is a statistic, in f32.
    const bool wide = std::any_of(value->indices.begin(), value->indices.end(),
                                  [&](const std::string& index) { return !contains(rows, index); });
    program.tensors.push_back({output, wide && is_floating(options.dtype) ? options.dtype : ScalarType::f32,
                               shape_of(algorithm, output), Tensor::Role::output});
  }
}

const Expr& Lowering::extent_of(const std::string& axis_name) const {
  const auto found = axis_extents_.find(axis_name);
  if (found == axis_extents_.end()) throw InternalError("axis " + axis_name + " has no extent");
  return found->second;
}

const Expr& Lowering::length_of(const std::string& axis_name) const {
  const auto length = algorithm.lengths.find(axis_name);
  return length == algorithm.lengths.end() ? extent_of(axis_name) : length->second;
}

Expr Lowering::end_of(const std::string& axis_name) const {
  return is_ragged(axis_name) ? min(extent_of(axis_name), length_of(axis_name)) : extent_of(axis_name);
}

void Lowering::check_elements(const std::vector<Element>& elements) const {
  for (const Element& element : elements)
    for (const std::string& index : element.indices)
      if (index != axis && !contains(rows, index))
        throw UserError(element.where,
                        element.name + " varies with " + index + ", which is no row of what reduces it over " + axis +
                            ": the contribution does not factor into a tile over rows and " + axis + " and a (" + axis +
                            "," + index + ") tile of an input",
                        {"write the term as " + element.name + " times one element of an input"});
}

int Lowering::known_extent(const std::string& axis_name) {
  const Expr& extent = extent_of(axis_name);
  if (is_ragged(axis_name) && axis_name != axis)
    throw UserError(schedule.where,
                    "axis " + axis_name + " is whole in a tile, and its length " + to_string(length_of(axis_name)) +
                        " is not the same everywhere",
                    {"an axis of this kind is a row, or the one that is reduced"});
  std::vector<std::string> unknown;
  for (const std::string& name : free_variables(extent))
    if (!options.known.contains(name)) unknown.push_back(name);
  if (!unknown.empty())
    throw UserError(schedule.where,
                    "axis " + axis_name + " is whole in a tile, so its length " + to_string(extent) +
                        " has to be known when the kernel is compiled, and no value is given for " + unknown.front(),
                    {"--shape " + unknown.front() + "=64"});
  const std::int64_t value = evaluate_integer(extent, options.known);
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  if (value < 1 || value > kMost)
    throw UserError(schedule.where, "axis " + axis_name + " is whole in a tile and " + to_string(extent) + " = " +
                                        std::to_string(value) + ", allowed are 1 to " + std::to_string(kMost));
  for (const std::string& name : free_variables(extent)) program.known[name] = options.known.at(name);
  return static_cast<int>(value);
}

std::optional<std::int64_t> Lowering::bound_of(const std::string& axis_name) const {
  // Extents grow with what they are made of: an expression of bounds is a bound of the expression.
  std::map<std::string, std::int64_t> values;
  const Expr& extent = extent_of(axis_name);
  for (const std::string& name : free_variables(extent)) {
    if (const auto bound = schedule.bound_of(name)) {
      values[name] = *bound;
    } else if (const auto known = program.known.find(name); known != program.known.end()) {
      values[name] = known->second;
    } else {
      return std::nullopt;
    }
  }
  bool grows = true;
  visit(extent, [&](const Expr& e) {
    if (const auto* c = e.as<Call>())
      grows = grows && (c->op == Op::add || c->op == Op::mul || c->op == Op::min || c->op == Op::max);
  });
  if (!grows) return std::nullopt;
  return evaluate_integer(extent, values);
}

std::string Lowering::add_axis(const std::string& base, const Expr& extent) {
  const std::string name = names.fresh(base);
  axis_extents_.emplace(name, extent);
  return name;
}

std::string Lowering::add_scratch(const std::string& base, const std::vector<std::string>& axes) {
  Tensor tensor{names.fresh(base), ScalarType::f32, {}, Tensor::Role::scratch};
  for (const std::string& name : axes) tensor.dims.push_back(extent_of(name));
  program.tensors.push_back(tensor);
  return tensor.name;
}

std::string Lowering::add_block_tensor(const std::string& base, const std::vector<std::int64_t>& extents) {
  Tensor tensor{names.fresh(base), ScalarType::f32, {extent_of(teams_axis)}, Tensor::Role::block};
  for (const std::int64_t extent : extents) tensor.dims.emplace_back(extent);
  program.tensors.push_back(tensor);
  return tensor.name;
}

std::string Lowering::add_counters(const std::string& base, std::vector<Expr> dims) {
  program.tensors.push_back({names.fresh(base), ScalarType::i32, std::move(dims), Tensor::Role::counters});
  return program.tensors.back().name;
}

std::string Lowering::add_chosen_extent(const std::string& base) {
  program.extents.push_back(names.fresh(base));
  return program.extents.back();
}

Expr NestLoop::origin() const {
  const Expr tile = turn.empty() ? variable(var) : variable(var) * Expr(turns) + variable(turn);
  return tile * Expr(step);
}

const NestLoop* Nest::over(const std::string& wanted) const {
  for (const NestLoop& loop : loops)
    if (loop.axis == wanted) return &loop;
  return nullptr;
}

const NestLoop* Nest::named(const LoopName& wanted) const {
  for (const NestLoop& loop : loops)
    if (loop.name == wanted) return &loop;
  return nullptr;
}

bool Nest::is_tile_axis(const std::string& axis) const {
  if (axis == row || axis == column || cut.contains(axis)) return true;
  return over(axis) == nullptr;
}

int Nest::step_of(const std::string& axis) const {
  if (axis == row) return rows;
  if (axis == column) return columns;
  const auto part = cut.find(axis);
  return part == cut.end() ? 1 : part->second;
}

namespace {

/// The length of a ragged axis is read at one place of each axis that it varies with, in loops around.
void check_length_known(const Lowering& lowering, const Nest& nest, const NestLoop& loop, const Placement& placement) {
  if (!lowering.is_ragged(loop.axis)) return;
  for (const std::string& name : free_variables(lowering.length_of(loop.axis))) {
    if (contains(lowering.program.extents, name)) continue;
    const NestLoop* around = nest.over(name);
    if (around && around->var == name) continue;
    throw UserError(placement.where,
                    placement.name + ": axis " + loop.axis + " is " + to_string(lowering.length_of(loop.axis)) +
                        " long, which varies with " + name + ", so the loop over " + loop.axis +
                        " lies inside one over " + name + ", one at a time",
                    {"reorder with " + name + " in front of " + loop.name + ", and no tile along " + name});
  }
}

}  // namespace

Nest make_nest(Lowering& lowering, const Placement& placement, FreshNames& names) {
  Nest nest;
  nest.where = placement.where;
  nest.column = lowering.axis;
  std::vector<std::string> axes = lowering.rows;
  axes.push_back(lowering.axis);
  std::vector<std::string> tiled;
  for (const std::string& row : lowering.rows)
    if (placement.tile_of(row)) tiled.push_back(row);
  if (tiled.size() > 1)
    throw UserError(placement.where,
                    placement.name + " tiles the rows along " + tiled[0] + " and " + tiled[1] + ", a tile has one",
                    {"leave one of them out of tile"});
  if (!tiled.empty()) {
    nest.row = tiled[0];
  } else if (!lowering.rows.empty()) {
    nest.row = lowering.rows.back();
  } else {
    nest.row = names.fresh("row");
  }
  nest.rows = static_cast<int>(placement.tile_of(nest.row).value_or(1));
  nest.columns = static_cast<int>(placement.tile_of(lowering.axis).value_or(0));
  if (nest.columns == 0) nest.columns = lowering.known_extent(lowering.axis);

  for (const auto& [axis, size] : placement.tile())
    if (axis != lowering.axis && !contains(lowering.rows, axis)) nest.cut.emplace(axis, static_cast<int>(size));
  for (const auto& [axis, size] : nest.cut) axes.push_back(axis);

  std::vector<LoopName> order = placement.reorder();
  const std::vector<LoopName> blocks = placement.blocks();
  const std::vector<LoopName> descending = placement.descending();
  std::vector<LoopName> missing;
  for (const std::string& axis : axes) {
    const LoopName name = placement.tile_of(axis) ? axis + ".o" : axis;
    if (!contains(order, name)) missing.push_back(name);
  }
  // Axes that the placement doesn't order lie outside, the reduced one inside.
  for (auto name = missing.rbegin(); name != missing.rend(); ++name) {
    if (*name == lowering.axis || *name == lowering.axis + ".o") {
      order.push_back(*name);
    } else {
      order.insert(order.begin(), *name);
    }
  }
  for (const std::string& axis : {lowering.parts_axis, lowering.teams_axis})
    if (!axis.empty()) axes.push_back(axis);
  for (const LoopName& name : order) {
    NestLoop loop;
    loop.name = name;
    loop.axis = name.ends_with(".o") ? name.substr(0, name.size() - 2) : name;
    if (name.ends_with(".s")) loop.axis = lowering.parts_axis;
    if (name.ends_with(".w")) loop.axis = lowering.teams_axis;
    if (!contains(axes, loop.axis)) throw InternalError(placement.name + " orders the unknown loop " + name);
    const bool is_tile = loop.axis == nest.row || loop.axis == nest.column || nest.cut.contains(loop.axis);
    loop.var = is_tile ? names.fresh(loop.axis + "_o") : loop.axis;
    loop.step = nest.step_of(loop.axis);
    loop.grid = contains(blocks, name);
    if (loop.axis == nest.column && !lowering.teams_axis.empty()) {
      loop.turns = static_cast<int>(placement.teams());
      loop.turn = lowering.teams_axis;
    }
    // Blocks are started for the longest.
    const Expr end = loop.grid ? lowering.extent_of(loop.axis) : lowering.end_of(loop.axis);
    loop.count = ceil_div(end, Expr(loop.stride()));
    loop.descending = contains(descending, name);
    check_length_known(lowering, nest, loop, placement);
    nest.loops.push_back(std::move(loop));
  }
  return nest;
}

}  // namespace astatide::tile
