#pragma once

#include <optional>
#include <string>
#include <utility>

#include "compiler/tile/thread_grid.h"

namespace astatide::cuda {

/// One axis of a tile as a thread sees it: `threads` threads take it in turn, `vector` neighbouring elements at a time;
/// or, in units, `threads / unit` groups of threads take `vector` neighbouring units, each thread one element of each.
struct FragmentAxis {
  int extent = 1;
  int threads = 1;
  int vector = 1;
  int unit = 1;

  /// Elements that each thread holds, those beyond the extent included.
  int count() const;
  /// Every held element lies inside the extent.
  bool exact() const { return count() * threads == extent; }
  /// The first held element of offsets begin .. end-1 and the one behind the last, the same in every thread; nothing
  /// where threads hold different shares of that part.
  std::optional<std::pair<int, int>> held_part(int begin, int end) const;
  /// Offset in the tile of held element `index`, in the text of thread coordinate `thread`: the sum of the two below.
  std::string offset(const std::string& index, const std::string& thread) const;
  /// Without units: the part that is the thread's, and that of the held element.
  std::string thread_part(const std::string& thread) const;
  std::string held_offset(const std::string& index) const;
};

/// How a thread grid holds a tile: held element (r, c) is register r * columns.count() + c.
struct Fragment {
  FragmentAxis rows, columns;
  int registers() const { return rows.count() * columns.count(); }
};

/// The fragment of a tile dealt out over `grid`: the first axis over its rows, the second, if any, over its columns.
Fragment fragment_of(const tile::Mem& mem, const tile::ThreadGrid& grid);

/// The tile that an operand of a product is staged in.
const tile::TileName& operand_tile(const tile::Operand& operand);

/// A row of a panel, and what is swizzled in it: also a row of a matrix of ldmatrix, and what descriptors count in.
inline constexpr int kPanelBytes = 128, kChunkBytes = 16;

/// Elements from row to row of a tile in shared memory; of one in panels, a row of all of them.
int pitch_of(const tile::Mem& mem);
bool in_panels(const tile::Mem& mem);
/// The call that gives an element's place in a tile in panels, counted in elements.
std::string panel_place(const tile::Mem& mem, const std::string& row, const std::string& column);

}  // namespace astatide::cuda
