#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

using tile::Mem;
using tile::ThreadGrid;

const Mem& KernelEmitter::mem(const tile::TileName& name) const {
  const Mem* found = kernel_.find(name);
  if (!found) throw InternalError("kernel " + kernel_.name + " has no tile " + name);
  return *found;
}

ThreadGrid KernelEmitter::grid_for(const std::vector<const Mem*>& tiles) const {
  return tile::grid_for(kernel_, tiles);
}

std::string KernelEmitter::open_columns(const FragmentAxis& axis, const std::string& column,
                                        const std::optional<tile::Columns>& columns) {
  const auto part = columns ? axis.held_part(columns->begin, columns->end) : std::pair(0, axis.count());
  out_.open_unrolled(held_column_, part ? part->first : 0, part ? part->second : axis.count());
  return part ? "" : fmt::format("{0} <= {1} && {1} < {2}", columns->begin, column, columns->end);
}

Element KernelEmitter::open_element(const Mem& shape, const ThreadGrid& grid, bool guard,
                                    const std::optional<tile::Columns>& columns,
                                    const std::function<void(const Element& row)>& in_row) {
  const Fragment fragment = fragment_of(shape, grid);
  Element at;
  int depth = 1;
  out_.open_unrolled(held_row_, fragment.rows.count());
  at.held_row = held_row_;
  at.row = fragment.rows.offset(held_row_, row_in(grid));
  if (in_row) in_row(at);
  std::string condition;
  if (shape.dims.size() == 2) {
    at.held_column = held_column_;
    at.column = fragment.columns.offset(held_column_, column_in(grid));
    condition = open_columns(fragment.columns, at.column, columns);
    ++depth;
  }
  const std::string within = guard ? inside(shape, grid, at) : "";
  if (!within.empty()) condition += (condition.empty() ? "" : " && ") + within;
  if (!condition.empty()) {
    out_.open("if (" + condition + ")");
    ++depth;
  }
  element_depth_.push_back(depth);
  return at;
}

const std::pair<std::string, std::string>& KernelEmitter::place_in(const ThreadGrid& grid) {
  const auto [place, is_new] = other_places_.try_emplace(grid.columns);
  if (is_new) {
    place->second.first = claim(fmt::format("thread_row_of_{}", grid.columns));
    place->second.second = claim(fmt::format("thread_column_of_{}", grid.columns));
  }
  return place->second;
}

/// Behind a block's teams a grid is one of all its threads.
bool KernelEmitter::is_own(const ThreadGrid& grid) const {
  return grid.columns == kernel_.thread_columns && (kernel_.teams == 1 || grid.rows == kernel_.thread_rows);
}

const std::string& KernelEmitter::row_in(const ThreadGrid& grid) { return is_own(grid) ? row_ : place_in(grid).first; }

const std::string& KernelEmitter::column_in(const ThreadGrid& grid) {
  return is_own(grid) ? column_ : place_in(grid).second;
}

void KernelEmitter::close_element() {
  for (int i = 0; i < element_depth_.back(); ++i) out_.close();
  element_depth_.pop_back();
}

std::string KernelEmitter::inside(const Mem& shape, const ThreadGrid& grid, const Element& at) const {
  const Fragment fragment = fragment_of(shape, grid);
  std::string condition;
  if (!fragment.rows.exact()) condition = fmt::format("{} < {}", at.row, fragment.rows.extent);
  if (shape.dims.size() == 2 && !fragment.columns.exact())
    condition += fmt::format("{}{} < {}", condition.empty() ? "" : " && ", at.column, fragment.columns.extent);
  return condition;
}

std::string KernelEmitter::base(const Mem& tile, bool write) const {
  if (tile.ring <= 1) return tile.name;
  const std::int64_t slot = static_cast<std::int64_t>(pitch_of(tile)) * tile.element_count() / tile.dims.back().extent;
  return fmt::format("({} + {} * {})", tile.name, claimed(tile.name + (write ? "_write" : "_read")), slot);
}

std::string KernelEmitter::shared_place(const Mem& tile, const std::string& row, const std::string& column,
                                        bool write) {
  if (!own_names_.contains("shared_base")) claim("shared_base");
  std::string text = fmt::format("{} + {}", claimed("shared_base"), tile.offset);
  if (tile.ring > 1)
    text += fmt::format(" + {} * {}", claimed(tile.name + (write ? "_write" : "_read")), tile.byte_count() / tile.ring);
  const std::string place =
      in_panels(tile) ? panel_place(tile, row, column) : fmt::format("(({}) * {} + {})", row, pitch_of(tile), column);
  return fmt::format("{} + {} * {}", text, size_in_bytes(tile.type), place);
}

std::string KernelEmitter::access(const Mem& tile, const Element& at, bool write) const {
  if (tile.space == Space::register_file) {
    if (tile.dims.size() == 1 || at.held_column.empty()) return fmt::format("{}[{}]", tile.name, at.held_row);
    const Fragment fragment = fragment_of(tile, grid_of(tile));
    return fmt::format("{}[{} * {} + {}]", tile.name, at.held_row, fragment.columns.count(), at.held_column);
  }
  const std::string column = tile.dims.size() == 2 ? " + " + at.column : "";
  if (in_panels(tile)) return fmt::format("{}[{}]", base(tile, write), panel_place(tile, at.row, at.column));
  if (tile.dims.size() == 1) return fmt::format("{}[{}]", base(tile, write), at.row);
  return fmt::format("{}[({}) * {}{}]", base(tile, write), at.row, pitch_of(tile), column);
}

TextScope KernelEmitter::scope(const Element* element) const {
  TextScope scope;
  scope.approximate = program_.approximate;
  scope.variable = [this, element](const std::string& name) -> Text {
    if (const auto known = program_.known.find(name); known != program_.known.end())
      return {std::to_string(known->second), ValueType::integer};
    if (integers_.contains(name)) return {name, ValueType::integer};
    if (flags_.contains(name)) return {name, ValueType::boolean};
    if (const Mem* tile = kernel_.find(name)) {
      if (!element) throw InternalError("tile " + name + " is read outside of a map");
      const std::string text = access(*tile, *element, false);
      if (tile->type == ScalarType::i32) return {text, ValueType::integer};
      return {tile->type == ScalarType::f32 ? text : "to_float(" + text + ")", ValueType::real};
    }
    for (const std::string& scalar : program_.scalars)
      if (scalar == name) return {name, ValueType::real};
    throw InternalError("kernel " + kernel_.name + ": unknown name " + name + " in an expression");
  };
  scope.read = [this](const std::string& tensor, const std::vector<std::string>& indices) -> Text {
    const std::string element = "*(" + address(tensor, indices) + ")";
    const tile::Tensor* found = program_.find_tensor(tensor);
    if (found->type == ScalarType::i32) return {element, ValueType::integer, 15};
    if (found->type == ScalarType::i64) return {"static_cast<int>(" + element + ")", ValueType::integer};
    if (found->type == ScalarType::u8) return {"static_cast<int>(" + element + ")", ValueType::integer};
    if (found->type == ScalarType::boolean) return {"(" + element + " != 0)", ValueType::boolean};
    return {"to_float(" + element + ")", ValueType::real};
  };
  scope.row = [this](const std::string& tensor, const std::vector<std::string>& indices) {
    return address(tensor, indices) + ", " + stride(tensor, indices.size() - 1);
  };
  scope.non_negative = [this](const std::string& name) { return non_negative_.contains(name); };
  return scope;
}

std::string KernelEmitter::claim(const std::string& name) {
  const std::string unique = fresh(name);
  taken_.insert(unique);
  own_names_[name] = unique;
  return unique;
}

std::string KernelEmitter::fresh(const std::string& name) const {
  std::string candidate = name;
  for (int n = 2; taken_.contains(candidate); ++n) candidate = fmt::format("{}_{}", name, n);
  return candidate;
}

}  // namespace astatide::cuda
