#include "compiler/cuda/fragment.h"

#include <fmt/format.h>

#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

int ceil_to(int a, int b) { return (a + b - 1) / b; }

}  // namespace

int FragmentAxis::count() const { return ceil_to(extent, threads * vector) * vector; }

std::optional<std::pair<int, int>> FragmentAxis::held_part(int begin, int end) const {
  const int step = threads * vector;
  if (begin % step != 0 || (end % step != 0 && end != extent)) return std::nullopt;
  return std::pair(begin / step * vector, ceil_to(end, step) * vector);
}

std::string FragmentAxis::offset(const std::string& index, const std::string& thread) const {
  if (threads == 1) return index;
  if (unit > 1) {
    const std::string place = count() == vector ? fmt::format("{} / {} * {} + {}", thread, unit, vector, index)
                                                : fmt::format("{0} / {1} * {2} + {3} % {2} + {3} / {2} * {4}", thread,
                                                              unit, vector, index, threads / unit * vector);
    return fmt::format("({0}) * {1} + {2} % {1}", place, unit, thread);
  }
  const std::string held = held_offset(index);
  return held == "0" ? thread_part(thread) : thread_part(thread) + " + " + held;
}

std::string FragmentAxis::thread_part(const std::string& thread) const {
  if (unit > 1) throw InternalError("the offset of a thread in units is no sum");
  if (threads == 1) return "0";
  return vector == 1 ? thread : fmt::format("{} * {}", thread, vector);
}

std::string FragmentAxis::held_offset(const std::string& index) const {
  if (threads == 1 || count() == vector) return threads > 1 && vector == 1 ? "0" : index;
  if (vector == 1) return fmt::format("{} * {}", threads, index);
  return fmt::format("{0} % {1} + {0} / {1} * {2}", index, vector, threads * vector);
}

Fragment fragment_of(const tile::Mem& mem, const tile::ThreadGrid& grid) {
  if (mem.dims.empty() || mem.dims.size() > 2)
    throw InternalError(fmt::format("tile {} has {} axes; fragments have one or two", mem.name, mem.dims.size()));
  Fragment fragment;
  fragment.rows = {mem.dims[0].extent, grid.rows, grid.row_vector, grid.row_unit};
  // A tile of rows is held by all threads of a row alike.
  if (mem.dims.size() == 2) fragment.columns = {mem.dims[1].extent, grid.columns, grid.column_vector, 1};
  return fragment;
}

const tile::TileName& operand_tile(const tile::Operand& operand) {
  const auto* name = std::get_if<tile::TileName>(&operand);
  if (!name) throw InternalError("an operand of a product is not staged");
  return *name;
}

int pitch_of(const tile::Mem& mem) {
  if (in_panels(mem)) return tile::panel_columns(mem);
  const auto* rows = std::get_if<tile::Rows>(&mem.layout);
  if (!rows) throw InternalError("tile " + mem.name + " in shared memory has no row layout");
  return rows->pitch > 0 ? rows->pitch : mem.dims.back().extent;
}

bool in_panels(const tile::Mem& mem) { return std::holds_alternative<tile::Panels>(mem.layout); }

std::string panel_place(const tile::Mem& mem, const std::string& row, const std::string& column) {
  const std::string wide = size_in_bytes(mem.type) == 4 ? ", 32" : "";
  return fmt::format("in_panels<{}{}>({}, {})", mem.dims[0].extent, wide, row, column);
}

}  // namespace astatide::cuda
