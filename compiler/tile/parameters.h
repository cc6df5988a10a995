#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide::tile {

/// Rows that run along two dimensions of a tensor, one of which varies faster: row r is place r % length along it, from
/// `origin` on, and place r / length along the other.
struct PackedRows {
  int fast_dim = 0;
  Expr length, origin;
};

/// A parameter of a kernel as both backends pass it, in order: for each tensor that it touches a pointer and one stride
/// a dimension (in elements, 64 bits), or, where TMA copies it, a tensor map (of counters the pointer is an arrival's);
/// then the extents (i32), then the scalars (f32), then, where the kernel is persistent, the counter that deals out its
/// tiles.
struct Parameter {
  enum class Kind : std::uint8_t { pointer, stride, extent, scalar, tensor_map, counter, arrivals };
  Kind kind = Kind::pointer;
  std::string name;     // of the tensor, extent or scalar
  int dim = 0;          // of a stride; of a tensor map, the dimension that the rows of its tiles run along
  int inner = 0;        // of a tensor map: the dimension along a row
  int rows = 0;         // of a tensor map: of what one copy moves
  bool stored = false;  // of a tensor map: TMA writes the tensor
  std::optional<PackedRows> packed{};  // of a tensor map; one copy then moves whole runs of the faster dimension
};

/// Rows that lie in pages of one length, which other dimensions find by expressions over the number of the page, such
/// as the element of a table: row r is place r % length of page r / length.
struct PagedRows {
  std::int64_t length = 0;
  std::vector<int> dims;  // that find the page
};

/// How tiles of a tensor are copied by TMA: their rows run along one dimension of the tensor, one by one and from
/// `first_row` on, or along that and a faster one, or along that in pages, their columns along another; the other
/// dimensions have one place a tile.
struct TiledView {
  int row_dim = 0, column_dim = 0;
  Expr first_row = Expr(0);  // where the rows' coordinate is 0, or a page's first; 0 for packed rows
  std::optional<PackedRows> packed{};
  std::optional<PagedRows> paged{};

  /// Where the tensor ends along the rows' coordinate. Pages have no common end.
  Expr end_of_rows(const Tensor& tensor) const;
  /// Of so many rows those that one copy takes, in pages of one of them.
  int rows_of_box(int rows) const;
};
/// Nothing where a view has no such form.
std::optional<TiledView> tiled_view(const View& view, const Mem& tile);
/// Rows of a tile that one copy to global memory takes: those that a warpgroup holds together.
inline constexpr int kStoredRows = 64;
/// A view that a statement stores a tile to by TMA, or null.
const View* view_stored_by_tma(const Stmt& stmt);
/// Tiles that TMA loads: with roles, in slots that the producer passes on to the consumers.
std::set<TileName> tiles_loaded_by_tma(const Block& block);
/// Whether rows of a tensor are contiguous and begin at multiples of so many elements, whatever a launch passes: those
/// of scratch tensors do, which a launch lays out densely itself, where their length is known, and those of a block.
bool is_dense_in(const Program& program, const std::string& tensor, int vector);
/// The stride of a scratch tensor's dimension, in elements, where the lengths of those behind it are known.
std::optional<std::int64_t> known_stride(const Program& program, const std::string& tensor, std::size_t dim);
/// Tensors in the shared memory of a kernel's block, in the program's order.
std::vector<std::string> block_tensors_of(const Program& program, const Kernel& kernel);
/// Elements of one team's part of such a tensor, and the strides of its dimensions behind the first.
std::int64_t elements_of_team(const Tensor& tensor);
std::vector<std::int64_t> strides_in_team(const Tensor& tensor);
/// ChosenParts::choose as an expression over the extents and `resident`.
Expr choice_of_parts(const ChosenParts& parts, const Expr& resident);
std::vector<Parameter> parameters_of(const Program& program, const Kernel& kernel);

}  // namespace astatide::tile
