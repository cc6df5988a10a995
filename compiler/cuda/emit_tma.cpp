// Copies by TMA (PTX ISA, cp.async.bulk.tensor). A box is as wide as a panel: a tile is loaded panel by panel, and
// stored panel by panel by each consumer for the 64 rows that its warps hold. So what a consumer waits for in front of
// a store is its own 128 threads and its own last copy, and no other consumer.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide::cuda {

using tile::Mem;

namespace {

constexpr int kPanel = 64;         // columns, of 16 bits
constexpr int kBoxesTogether = 2;  // a producer has 40 registers or less, also for what tables hold

std::string plus(const std::string& origin, int offset) {
  return origin == "0" ? std::to_string(offset) : fmt::format("{} + {}", origin, offset);
}

}  // namespace

// The map's dimensions are the columns, the rows, the faster one of packed rows first, then the others, innermost
// first.
KernelEmitter::TmaPlace KernelEmitter::tma_place(const tile::View& view, const Mem& tile) const {
  const auto form = tile::tiled_view(view, tile);
  if (!form) throw InternalError("a tile of " + view.tensor + " has no form that TMA copies");
  TmaPlace place{"0", "0", "", form->packed};
  for (std::size_t dim = view.indices.size(); dim-- > 0;)
    if (const int n = static_cast<int>(dim);
        n != form->row_dim && n != form->column_dim && !(form->packed && n == form->packed->fast_dim))
      place.others += fmt::format(", static_cast<int>({})", integer_text(view.indices[dim], scope()));
  for (const tile::Coordinate& coordinate : view.at) {
    if (coordinate.axis == tile.dims[0].axis) place.row = narrow_text(coordinate.origin + form->first_row, scope());
    if (coordinate.axis == tile.dims[1].axis) place.column = integer_text(coordinate.origin, scope());
  }
  return place;
}

// A copy begins at a whole run of packed rows: runs divide its rows, as making the map checks.
std::string KernelEmitter::tma_coordinates(const TmaPlace& place, int columns, const std::string& rows) const {
  std::string row = rows.empty() ? place.row : place.row + " + " + rows;
  if (place.packed)
    row = fmt::format("static_cast<int>({}), ({}) / ({})", integer_text(place.packed->origin, scope()), row,
                      integer_text(place.packed->length, scope()));
  return fmt::format("{}, {}{}", plus(place.column, columns), row, place.others);
}

// What tables hold is read in front of the copies of a few boxes, so that one wait is for all of them. What is the same
// for all boxes, the limit and other indices, is computed in front of them: a division of 64 bits among the copies
// takes the registers of a call. A box that begins behind the limit has no page: it begins outside of the tensor, where
// TMA finds zeros.
void KernelEmitter::emit_paged(
    const tile::View& view, const Mem& dst, const tile::TiledView& form,
    const std::function<std::string(const std::string& place, const std::string& coordinates)>& line) {
  const int rows = dst.dims[0].extent, rows_of_box = form.rows_of_box(rows), boxes = rows / rows_of_box;
  const int together = std::min(boxes, kBoxesTogether);
  const tile::Coordinate& along = view.at.front();
  const std::string box = fresh("box");
  std::string number = box, exists, limit,
              others;  // a box's number, whether it is one, indices of the other dimensions
  out_.open("");
  if (along.limit && !always_within(along, dst)) {
    limit = fresh("limit");
    out_.line(fmt::format("const int {} = {};", limit, narrow_text(*along.limit, scope())));
  }
  std::map<int, std::string> pages;
  for (const int dim : form.paged->dims) pages[dim] = fresh(fmt::format("page_{}", dim));
  for (std::size_t dim = view.indices.size(); dim-- > 0;) {
    const int n = static_cast<int>(dim);
    if (n == form.row_dim || n == form.column_dim) continue;
    const auto page = pages.find(n);
    std::string index = page == pages.end() ? fresh(fmt::format("at_{}", n)) : fmt::format("{}[{}]", page->second, box);
    if (page == pages.end())
      out_.line(fmt::format("const int {} = static_cast<int>({});", index, integer_text(view.indices[dim], scope())));
    others += ", " + index;
  }
  if (boxes > together) {
    const std::string first = fresh("first");
    number = first + " + " + box;
    if (boxes % together != 0) exists = fmt::format("{} < {}", number, boxes);
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", first, boxes, together));
  }
  for (const auto& [dim, page] : pages) out_.line(fmt::format("int {}[{}];", page, together));
  out_.open_unrolled(box, together);
  out_.line(fmt::format("const int {} = {} + ({}) * {};", along.axis, integer_text(along.origin, scope()), number,
                        rows_of_box));
  integers_.insert(along.axis);
  non_negative_.insert(along.axis);
  std::string present = exists;
  if (!limit.empty()) present += fmt::format("{}{} < {}", present.empty() ? "" : " && ", along.axis, limit);
  for (const auto& [dim, page] : pages) {
    const std::string place = integer_text(view.indices[static_cast<std::size_t>(dim)], scope());
    out_.line(fmt::format("{}[{}] = {};", page, box, present.empty() ? place : present + " ? " + place + " : -1"));
  }
  out_.close();
  std::string column = "0";
  for (const tile::Coordinate& coordinate : view.at)
    if (coordinate.axis == dst.dims[1].axis) column = integer_text(coordinate.origin, scope());
  const Expr first_row = rows < form.paged->length ? mod(along.origin, Expr(form.paged->length)) : Expr(0);
  const std::string row = narrow_text(first_row + form.first_row, scope());
  out_.open_unrolled(box, together);
  if (!exists.empty()) out_.open("if (" + exists + ")");
  for (int panel = 0; panel < tile::panel_columns(dst) / kPanel; ++panel)
    out_.line(line(fmt::format("{} + ({}) * {}", panel * rows * kPanel, number, rows_of_box * kPanel),
                   fmt::format("{}, {}{}", plus(column, panel * kPanel), row, others)));
  if (!exists.empty()) out_.close();
  out_.close();
  if (boxes > together) out_.close();
  out_.close();
}

void KernelEmitter::emit_tma_prefetch(const tile::View& view, const Mem& dst) {
  const std::string map = claimed(view.tensor + "_map");
  if (const auto form = tile::tiled_view(view, dst); form && form->paged)
    return emit_paged(view, dst, *form, [&](const std::string&, const std::string& coordinates) {
      return fmt::format("tma_prefetch(&{}, {});", map, coordinates);
    });
  const TmaPlace place = tma_place(view, dst);
  for (int column = 0; column < tile::panel_columns(dst); column += kPanel)
    out_.line(fmt::format("tma_prefetch(&{}, {});", map, tma_coordinates(place, column)));
}

void KernelEmitter::emit_tma_load(const tile::View& view, const Mem& dst, bool multicast) {
  const std::string full = slot_barrier(dst.name, true, claimed(dst.name + "_write"));
  if (const auto form = tile::tiled_view(view, dst); form && form->paged)
    return emit_paged(view, dst, *form, [&](const std::string& at, const std::string& coordinates) {
      return fmt::format("tma_load({} + {}, &{}, {}, {});", base(dst, true), at, claimed(view.tensor + "_map"), full,
                         coordinates);
    });
  const TmaPlace place = tma_place(view, dst);
  const int panels = tile::panel_columns(dst) / kPanel, rows = dst.dims[0].extent;
  std::string to = base(dst, true), function = "tma_load(", behind;
  if (multicast) {
    // To all blocks, this block's share of the rows.
    const int blocks = kernel_.cluster_blocks(), share = rows / blocks;
    function = fmt::format("tma_multicast({:#x}, ", (1 << blocks) - 1);
    to += fmt::format(" + {} * {}", claimed("cluster_rank"), share * kPanel);
    behind = fmt::format("{} * {}", claimed("cluster_rank"), share);
  }
  for (int panel = 0; panel < panels; ++panel)
    out_.line(fmt::format("{}{} + {}, &{}, {}, {});", function, to, panel * rows * kPanel,
                          claimed(view.tensor + "_map"), full, tma_coordinates(place, panel * kPanel, behind)));
}

// Each consumer writes all of them and waits for itself alone: another may still be reading the slot, but has written
// the same zeros before. The fence is between what threads write and what wgmma, or TMA in the slot's next turn, does
// there.
void KernelEmitter::emit_rows_beyond(const tile::Coordinate& rows, const Mem& tile, const tile::SyncOps& behind) {
  if (rows.axis != tile.dims[0].axis || !rows.limit) throw InternalError("TMA leaves no limit but that of the rows");
  const int extent = tile.dims[0].extent, vector = 16 / size_in_bytes(tile.type);
  const int across = tile::panel_columns(tile) / vector;
  const std::string present = fresh("present"), n = fresh("n");
  out_.line(fmt::format("// rows of {} beyond {} are 0", tile.name, to_string(*rows.limit)));
  out_.open("");
  out_.line(
      fmt::format("const int {} = {};", present, narrow_text(tile::collect_terms(*rows.limit - rows.origin), scope())));
  out_.open(fmt::format("if (__any_sync(0xffffffffu, {} < {}))", present, extent));
  out_.line("#pragma unroll 1");
  out_.open(fmt::format("for (int {0} = max({1}, 0) * {2} + {3} % 128; {0} < {4}; {0} += 128)", n, present, across,
                        thread_, extent * across));
  out_.line(fmt::format(
      "*reinterpret_cast<uint4*>({} + {}) = make_uint4(0, 0, 0, 0);", base(tile, false),
      panel_place(tile, fmt::format("{} / {}", n, across), fmt::format("{} % {} * {}", n, across, vector))));
  out_.close();
  emit(behind);
  out_.close();
  out_.close();
}

// The same thread of each warpgroup every time: it knows of its own copies alone.
void KernelEmitter::emit_tma_store(const tile::View& view, const Mem& src, const tile::SyncOps& behind) {
  const TmaPlace place = tma_place(view, src);
  const int panels = tile::panel_columns(src) / kPanel, rows = src.dims[0].extent;
  const int together = kernel_.warpgroups() * tile::kStoredRows;  // rows that all consumers take at a time
  out_.open("if (" + by_text(behind.front()) + ")");
  for (int first = 0; first < rows; first += together)
    for (int panel = 0; panel < panels; ++panel)
      out_.line(
          fmt::format("tma_store(&{0}, {1} + {2} + {3} * {4}, {5});", claimed(view.tensor + "_map"), base(src, false),
                      (panel * rows + first) * kPanel, claimed("warpgroup"), tile::kStoredRows * kPanel,
                      tma_coordinates(place, panel * kPanel,
                                      fmt::format("{} + {} * {}", first, claimed("warpgroup"), tile::kStoredRows))));
  for (const tile::SyncOp& op : behind) out_.line(instruction_text(op));
  out_.close();
}

}  // namespace astatide::cuda
