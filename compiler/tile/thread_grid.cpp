#include "compiler/tile/thread_grid.h"

#include "compiler/support/diagnostic.h"

namespace astatide::tile {

const ThreadGrid* find_grid(const Mem& mem) {
  if (const auto* grid = std::get_if<ThreadGrid>(&mem.layout)) return grid;
  const auto* rows = std::get_if<RowsOf>(&mem.layout);
  return rows ? &rows->grid : nullptr;
}

const ThreadGrid& grid_of(const Mem& mem) {
  if (const ThreadGrid* grid = find_grid(mem)) return *grid;
  throw InternalError("tile " + mem.name + " has no thread grid");
}

ThreadGrid grid_for(const Kernel& kernel, const std::vector<const Mem*>& tiles) {
  const Mem* rows = nullptr;
  for (const Mem* tile : tiles) {
    if (tile->space != Space::register_file) continue;
    if (tile->dims.size() == 2) return grid_of(*tile);
    rows = tile;
  }
  if (rows) return grid_of(*rows);
  return {kernel.thread_rows, kernel.thread_columns, 1, 1};
}

}  // namespace astatide::tile
