#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide::tile {

/// A parameter of a kernel as both backends pass it, in order: for each tensor that it touches a pointer and one stride
/// a dimension (in elements, 64 bits), or, where TMA copies it, a tensor map; then the extents (i32), then the scalars
/// (f32), then, where the kernel is persistent, the counter that deals out its tiles.
struct Parameter {
  enum class Kind : std::uint8_t { pointer, stride, extent, scalar, tensor_map, counter };
  Kind kind = Kind::pointer;
  std::string name;     // of the tensor, extent or scalar
  int dim = 0;          // of a stride; of a tensor map, the dimension that the rows of its tiles run along
  int inner = 0;        // of a tensor map: the dimension along a row
  int rows = 0;         // of a tensor map: of what one copy moves
  bool stored = false;  // of a tensor map: TMA writes the tensor
};

/// How tiles of a tensor are copied by TMA: their rows run along one dimension of the tensor, one by one and from
/// `first_row` on, their columns along another; the other dimensions have one place a tile.
struct TiledView {
  int row_dim = 0, column_dim = 0;
  Expr first_row;  // where the rows' coordinate is 0
};
/// Nothing where a view has no such form.
std::optional<TiledView> tiled_view(const View& view, const Mem& tile);
/// Rows of a tile that one copy to global memory takes: those that a warpgroup holds together.
inline constexpr int kStoredRows = 64;
/// A view that a statement stores a tile to by TMA, or null.
const View* view_stored_by_tma(const Stmt& stmt);
/// Tiles that TMA loads: with roles, in slots that the producer passes on to the consumers.
std::set<TileName> tiles_loaded_by_tma(const Block& block);
std::vector<Parameter> parameters_of(const Program& program, const Kernel& kernel);

}  // namespace astatide::tile
