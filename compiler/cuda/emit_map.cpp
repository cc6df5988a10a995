#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide::cuda {
namespace {

bool has_read(const Expr& e) { return !tensors_read(e).empty(); }

bool reads(const Expr& value, const std::vector<Expr>& predicates, const std::string& name) {
  const auto reads_it = [&](const Expr& e) { return free_variables(e).contains(name); };
  return reads_it(value) || std::any_of(predicates.begin(), predicates.end(), reads_it);
}

}  // namespace

/// What a map's predicates and limits say about the columns of a row: those from each of `from` on and before each of
/// `before` are visible, where `rest` holds, too.
struct ColumnWindow {
  const tile::Coordinate* column = nullptr;  // null where nothing bounds the columns
  std::vector<tile::Coordinate> others;      // coordinates of the map beside it
  std::vector<Expr> from, before;            // over what is constant in a row
  std::vector<Expr> rest;
};

namespace {

/// Adds a comparison of the column with what is constant in a row; false where the predicate is none.
bool add_bound(ColumnWindow& window, const Expr& predicate, const tile::Program& program, const tile::Kernel& kernel,
               const std::set<std::string>& integers) {
  for (const std::string& name : free_variables(predicate))
    if (name != window.column->axis && !integers.contains(name)) return false;
  // A tensor has elements within the limits alone, which rows are tested for together with the columns.
  for (const tile::Coordinate& coordinate : window.others)
    if (reads_at(predicate, coordinate.axis)) return false;
  const std::vector<Expr> inequalities = tile::as_inequalities(predicate, program, kernel);
  const auto linear = inequalities.size() == 1 ? tile::linear_in(inequalities[0], window.column->axis) : std::nullopt;
  if (!linear || (linear->factor != 1 && linear->factor != -1)) return false;
  if (linear->factor == 1)
    window.before.push_back(tile::collect_terms(Expr(1) - linear->rest));
  else
    window.from.push_back(linear->rest);
  return true;
}

}  // namespace

std::string KernelEmitter::emit_window(const ColumnWindow& window, const tile::Mem& dst, const tile::ThreadGrid& grid,
                                       const Element& row) {
  const FragmentAxis columns = fragment_of(dst, grid).columns;
  const std::string origin = integer_text(window.column->origin, scope()), part = columns.thread_part(column_);
  const std::string first = part == "0" ? origin : origin == "0" ? part : origin + " + " + part;
  const std::string behind = first == "0" ? "" : " - (" + first + ")";
  const std::string held = columns.held_offset(held_column_);
  std::string condition;
  const auto bound = [&](const std::vector<Expr>& bounds, Op op, const char* name, const char* relation) {
    const auto strictest = tile::extreme(bounds, op);
    if (!strictest) return;
    const std::string variable = fresh(name);
    out_.line(fmt::format("const int {} = {}{};", variable, narrow_text(*strictest, scope(&row)), behind));
    condition += fmt::format("{}{} {} {}", condition.empty() ? "" : " && ", held, relation, variable);
  };
  bound(window.from, Op::max, "first_visible", ">=");
  bound(window.before, Op::min, "end_visible", "<");
  return condition;
}

ColumnWindow KernelEmitter::window_of(const tile::Map& map, const tile::Mem& dst) const {
  ColumnWindow window{nullptr, map.at, {}, {}, map.where_predicates};
  // Where operands pass through registers, the bound's is worth more than an instruction an element.
  if (dst.dims.size() != 2 || dst.space != Space::register_file || !map.absent || !sync_.has_wgmma()) return window;
  for (const tile::Coordinate& coordinate : map.at)
    if (coordinate.axis == dst.dims[1].axis) window.column = &coordinate;
  if (!window.column) return window;
  std::erase_if(window.others, [&](const tile::Coordinate& c) { return c.axis == window.column->axis; });
  std::set<std::string> integers = integers_;
  for (const tile::Coordinate& coordinate : window.others) integers.insert(coordinate.axis);
  for (const auto& [name, value] : program_.known) integers.insert(name);
  for (const tile::Mem& rows : kernel_.mems)
    if (rows.type == ScalarType::i32 && rows.dims.size() == 1 && rows.dims[0] == dst.dims[0])
      integers.insert(rows.name);
  if (window.column->limit && !always_within(*window.column, dst)) window.before.push_back(*window.column->limit);
  std::erase_if(window.rest,
                [&](const Expr& predicate) { return add_bound(window, predicate, program_, kernel_, integers); });
  if (window.before.empty() && window.from.empty()) return {nullptr, map.at, {}, {}, map.where_predicates};
  return window;
}

void KernelEmitter::emit(const tile::Fill& fill) {
  if (std::isnan(fill.value)) return;
  const tile::Mem& dst = mem(fill.dst);
  const Element at = open_element(dst, grid_for({&dst}), dst.space == Space::shared);
  const std::string value = float_literal(fill.value);
  out_.line(
      fmt::format("{} = {};", access(dst, at, true),
                  dst.type == ScalarType::f32 ? value : fmt::format("from_float<{}>({})", type_text(dst.type), value)));
  close_element();
}

void KernelEmitter::emit(const tile::Map& map) {
  const tile::Mem& dst = mem(map.dst);
  std::vector<const tile::Mem*> tiles{&dst};
  for (const std::string& name : free_variables(map.value))
    if (const tile::Mem* tile = kernel_.find(name)) tiles.push_back(tile);
  const std::string part = map.columns ? fmt::format(" cols {}..{}", map.columns->begin, map.columns->end) : "";
  out_.line(fmt::format("// map {} {}{}", dst.name, describe(dst), part));
  const tile::ThreadGrid grid = grid_for(tiles);
  const ColumnWindow window = window_of(map, dst);
  std::string limits;
  const auto in_row = [&](const Element& row) {
    if (!window.column) return;
    limits = declare_coordinates(window.others, dst, row);
    const std::string columns = emit_window(window, dst, grid, row);
    limits += (limits.empty() ? "" : " && ") + columns;
  };
  // A thread beyond the tile has no element of what lies in shared memory.
  const bool guard =
      std::any_of(tiles.begin(), tiles.end(), [](const tile::Mem* tile) { return tile->space == Space::shared; });
  const Element at = open_element(dst, grid, guard, map.columns, in_row);
  if (!window.column) {
    limits = declare_coordinates(map.at, dst, at);
  } else if (reads(map.value, window.rest, window.column->axis)) {
    declare_coordinates({{window.column->axis, window.column->origin, std::nullopt}}, dst, at);
  }
  TextScope here = scope(&at);
  if (map.polynomial) here.polynomial = polynomial_text(map, dst, grid, at);
  const bool integer = dst.type == ScalarType::i32;
  std::string value = integer ? narrow_text(map.value, here) : real_text(map.value, here);
  std::string visible = map.absent || has_read(map.value) ? limits : "";
  for (const Expr& predicate : window.rest) {
    const Text text = text_of(predicate, here);
    // Of an && chain only || and ?: need parentheses.
    visible += (visible.empty() ? "" : " && ") + (text.precedence < 5 ? "(" + text.text + ")" : text.text);
  }
  if (!visible.empty()) {
    const double absent = map.absent.value_or(0.0);
    value = fmt::format("{} ? {} : {}", visible, value,
                        integer ? std::to_string(static_cast<int>(absent)) : float_literal(absent));
  }
  if (dst.type != ScalarType::f32 && !integer) value = fmt::format("from_float<{}>({})", type_text(dst.type), value);
  out_.line(fmt::format("{} = {};", access(dst, at, true), value));
  close_element();
}

std::string KernelEmitter::polynomial_text(const tile::Map& map, const tile::Mem& dst, const tile::ThreadGrid& grid,
                                           const Element& at) const {
  const auto [part, whole] = *map.polynomial;
  if (part == whole) return "true";
  const int columns = fragment_of(dst, grid).columns.count();
  const std::string place =
      at.held_column.empty() ? at.held_row : fmt::format("({} * {} + {})", at.held_row, columns, at.held_column);
  return fmt::format("{}{} % {} < {}", place, part == 1 ? "" : fmt::format(" * {}", part), whole, part);
}

void KernelEmitter::emit(const tile::Vote& vote) {
  // The widest tile has the axes of all others.
  const tile::Mem* tile = nullptr;
  for (const std::string& name : free_variables(vote.condition))
    if (const tile::Mem* found = kernel_.find(name); found && (!tile || found->dims.size() > tile->dims.size()))
      tile = found;
  if (!tile) throw InternalError("vote " + vote.flag + " reads no tile");
  const std::string any = fresh(vote.flag + "_here");
  out_.line(fmt::format("bool {} = false;", any));
  // Beyond the tile a thread may hold anything.
  const Element at = open_element(*tile, grid_for({tile}), true);
  out_.line(fmt::format("{} = {} || ({});", any, any, condition_text(vote.condition, scope(&at))));
  close_element();
  out_.line(fmt::format("{} = __any_sync(0xffffffffu, {});", vote.flag, any));
}

}  // namespace astatide::cuda
