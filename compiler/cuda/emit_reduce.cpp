#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {
namespace {

constexpr int kChains = 4, kLongRow = 16;

std::string combined(Reduction op, const std::string& a, const std::string& b) {
  switch (op) {
    case Reduction::sum:
      return a + " + " + b;
    case Reduction::max:
      return fmt::format("fmaxf({}, {})", a, b);
    case Reduction::min:
      return fmt::format("fminf({}, {})", a, b);
    default:
      throw InternalError("a reduction of tiles is a sum, a maximum or a minimum");
  }
}

}  // namespace

void KernelEmitter::emit(const tile::RowReduce& reduce) {
  const tile::Mem& src = mem(reduce.src);
  const tile::Mem& dst = mem(reduce.dst);
  const tile::ThreadGrid grid = grid_for({&src, &dst});
  const Fragment fragment = fragment_of(src, grid);
  const std::string part =
      reduce.columns ? fmt::format(" {}..{}", reduce.columns->begin, reduce.columns->end) : std::string();
  out_.line(fmt::format("// {} = {} over the columns{} of {} that this thread holds", dst.name, name_of(reduce.op),
                        part, src.name));
  out_.open_unrolled(held_row_, fragment.rows.count());
  Element at{fragment.rows.offset(held_row_, row_), fragment.columns.offset(held_column_, column_), held_row_,
             held_column_};
  const std::string share = fresh("share");
  const Element row{at.row, "", at.held_row, ""};
  const std::string start = reduce.accumulate ? access(dst, row, false) : float_literal(unit_of(reduce.op));
  const std::string unit = float_literal(unit_of(reduce.op));
  // One after the other, operations wait for each other: long rows are reduced in chains side by side.
  const bool chains = fragment.columns.count() >= kLongRow && fragment.columns.count() % kChains == 0;
  if (chains)
    out_.line(fmt::format("float {0}[{1}] = {{{2}, {3}, {3}, {3}}};", share, kChains, start, unit));
  else
    out_.line(fmt::format("float {} = {};", share, start));
  const std::string part_of_share = chains ? fmt::format("{}[{} % {}]", share, held_column_, kChains) : share;
  // Rows beyond the tile are nobody's, but a shared tile must not be read there.
  std::string guard = src.space == Space::shared || !fragment.columns.exact() ? inside(src, grid, at) : "";
  const std::string in_part = open_columns(fragment.columns, at.column, reduce.columns);
  if (!in_part.empty()) guard = in_part + (guard.empty() ? "" : " && " + guard);
  out_.line(fmt::format("{}{} = {};", guard.empty() ? "" : "if (" + guard + ") ", part_of_share,
                        combined(reduce.op, part_of_share, access(src, at, false))));
  out_.close();
  const auto pair = [&](int n) {
    return combined(reduce.op, fmt::format("{}[{}]", share, n), fmt::format("{}[{}]", share, n + 1));
  };
  const std::string whole = chains ? combined(reduce.op, "(" + pair(0) + ")", "(" + pair(2) + ")") : share;
  out_.line(fmt::format("{} = {};", access(dst, row, true), whole));
  out_.close();
}

void KernelEmitter::emit(const tile::AllReduce& reduce) {
  const tile::Mem& tile = mem(reduce.tile);
  const tile::ThreadGrid grid = grid_for({&tile});
  if (grid.columns == 1) return;  // a row lies in one thread
  const Element at = open_element(tile, grid, false);
  const std::string element = access(tile, at, true);
  out_.line(fmt::format("{} = lanes_{}<{}>({});", element, name_of(reduce.op), grid.columns, element));
  close_element();
}

}  // namespace astatide::cuda
