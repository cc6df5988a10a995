// Copies by TMA (PTX ISA, cp.async.bulk.tensor). A box is as wide as a panel: a tile is loaded panel by panel, and
// stored panel by panel by each consumer for the 64 rows that its warps hold. So what a consumer waits for in front of
// a store is its own 128 threads and its own last copy, and no other consumer.

#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide::cuda {

using tile::Mem;

namespace {

constexpr int kPanel = 64;  // columns, of 16 bits

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

void KernelEmitter::emit_tma_prefetch(const tile::View& view, const Mem& dst) {
  const TmaPlace place = tma_place(view, dst);
  for (int column = 0; column < tile::panel_columns(dst); column += kPanel)
    out_.line(fmt::format("tma_prefetch(&{}, {});", claimed(view.tensor + "_map"), tma_coordinates(place, column)));
}

void KernelEmitter::emit_tma_load(const tile::View& view, const Mem& dst, bool multicast) {
  const TmaPlace place = tma_place(view, dst);
  const int panels = tile::panel_columns(dst) / kPanel, rows = dst.dims[0].extent;
  const std::string full = slot_barrier(dst.name, true, claimed(dst.name + "_write"));
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
