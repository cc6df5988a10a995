// Stores of tiles to global memory. A row has one address, from which its columns are at most a step each; where it is
// contiguous and aligned, which a flag computed once a kernel says, stores are vectors of up to 16 bytes.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/cuda/type_text.h"
#include "compiler/cuda/view_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide::cuda {

using tile::Mem;
using tile::View;

namespace {

/// Columns that the four threads of a row of tensor cores hold together in as many 16-byte vectors of 16-bit elements.
constexpr int kQuadColumns = 32;

/// Coordinates along the columns of a tile, or all others.
std::vector<tile::Coordinate> coordinates(const View& view, const Mem& tile, bool of_columns) {
  std::vector<tile::Coordinate> out;
  for (const tile::Coordinate& c : view.at)
    if ((c.axis == tile.dims[1].axis) == of_columns) out.push_back(c);
  return out;
}

}  // namespace

void KernelEmitter::emit_store(const View& view, const Mem& src) {
  const ScalarType type = program_.find_tensor(view.tensor)->type;
  const auto dim = src.dims.size() == 2 ? contiguous_dim(view, src.dims[1].axis) : std::nullopt;
  const tile::Coordinate* along = dim ? find_coordinate(view, src.dims[1].axis) : nullptr;
  if (!along || src.space != Space::register_file || src.type != ScalarType::f32 || !is_floating(type) ||
      type == ScalarType::f64)
    return emit_store_elements(view, src);
  const tile::ThreadGrid grid = grid_for({&src});
  const Fragment fragment = fragment_of(src, grid);
  const int extent = src.dims[1].extent;
  const bool quads = size_in_bytes(type) == 2 && grid.columns == 4 && fragment.columns.vector == 2 &&
                     extent % kQuadColumns == 0 && fragment.columns.exact();
  const int vector = quads ? 8 : fragment.columns.vector;
  if (vector == 1 || vector > 8 || extent % vector != 0 || !tile::is_multiple(along->origin, vector))
    return emit_store_elements(view, src);
  std::string flag = vector_flag(view.tensor, *dim, vector);
  if (along->limit && !always_within(*along, src))
    flag += fmt::format(" && {} + {} <= {}", integer_text(along->origin, scope()), extent,
                        limit_text(*along->limit, scope()));
  out_.open("if (" + flag + ")");
  if (quads)
    emit_store_quads(view, src, *dim);
  else
    emit_store_rows(view, src, *dim, vector);
  out_.close();
  out_.open("else");
  emit_store_rows(view, src, *dim, 1);
  out_.close();
}

void KernelEmitter::emit_store_elements(const View& view, const Mem& src) {
  const tile::ThreadGrid grid = grid_for({&src});
  const Element at = open_element(src, grid, true);
  std::string limits = declare_coordinates(view.at, src, at);
  // Every thread of a row holds the row's number; one stores it.
  if (src.dims.size() == 1 && grid.columns > 1)
    limits = fmt::format("{} == 0{}{}", column_in(grid), limits.empty() ? "" : " && ", limits);
  const std::string value =
      src.type == ScalarType::f32 ? access(src, at, false) : "to_float(" + access(src, at, false) + ")";
  const ScalarType type = program_.find_tensor(view.tensor)->type;
  out_.line(fmt::format("{}*({}) = {};", limits.empty() ? "" : "if (" + limits + ") ",
                        address(view.tensor, index_texts(view)), converted(value, type)));
  close_element();
}

void KernelEmitter::emit_store_rows(const View& view, const Mem& src, std::size_t dim, int vector) {
  const tile::ThreadGrid grid = grid_for({&src});
  const ScalarType type = program_.find_tensor(view.tensor)->type;
  const Fragment fragment = fragment_of(src, grid);
  const Element at{fragment.rows.offset(held_row_, row_in(grid)),
                   fragment.columns.offset(held_column_, column_in(grid)), held_row_, held_column_};
  const std::string to = fresh("to"), &axis = src.dims[1].axis;
  out_.open_unrolled(held_row_, fragment.rows.count());
  const std::string row_limits = declare_coordinates(coordinates(view, src, false), src, at);
  if (!row_limits.empty()) out_.open("if (" + row_limits + ")");
  out_.line(fmt::format("{}* const {} = {};", type_text(type), to, address_without(dim, view)));
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", held_column_, fragment.columns.count(), vector));
  std::string limits = declare_coordinates(coordinates(view, src, true), src, at);
  const std::string inside_tile = inside(src, grid, at);
  if (!inside_tile.empty()) limits += (limits.empty() ? "" : " && ") + inside_tile;
  const std::string guard = limits.empty() ? "" : "if (" + limits + ") ";
  if (vector == 1) {
    out_.line(fmt::format("{}{}[{} * {}] = {};", guard, to, axis, stride(view.tensor, dim),
                          converted(access(src, at, false), type)));
  } else {
    const std::string first = fmt::format("{} * {} + {}", held_row_, fragment.columns.count(), held_column_);
    std::string values;
    for (int n = 0; n < vector; ++n) values += fmt::format("{}{}[{} + {}]", n > 0 ? ", " : "", src.name, first, n);
    out_.line(fmt::format("{}store{}({} + {}, make_float{}({}));", guard, vector, to, axis, vector, values));
  }
  out_.close();
  if (!row_limits.empty()) out_.close();
  out_.close();
}

// A thread of tensor cores holds two columns of each eight. The four threads of a row turn four pairs each into the
// eight columns of one of four such groups.
void KernelEmitter::emit_store_quads(const View& view, const Mem& src, std::size_t dim) {
  const ScalarType type = program_.find_tensor(view.tensor)->type;
  const Fragment fragment = fragment_of(src, grid_for({&src}));
  const std::string to = fresh("to"), pairs = fresh("pairs"), n = fresh("n");
  const Element at{fragment.rows.offset(held_row_, row_), fmt::format("({} / 2 + {}) * 8", held_column_, column_),
                   held_row_, held_column_};
  out_.open_unrolled(held_row_, fragment.rows.count());
  const std::string row_limits = declare_coordinates(coordinates(view, src, false), src, at);
  out_.line(fmt::format("{}* const {} = {};", type_text(type), to, address_without(dim, view)));
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += 8)", held_column_, fragment.columns.count()));
  out_.line(fmt::format("unsigned {}[4];", pairs));
  out_.open_unrolled(n, 4);
  const std::string first = fmt::format("{} * {} + {} + 2 * {}", held_row_, fragment.columns.count(), held_column_, n);
  out_.line(fmt::format("{0}[{1}] = pack2<{2}>({3}[{4}], {3}[{4} + 1]);", pairs, n, type_text(type), src.name, first));
  out_.close();
  out_.line(fmt::format("quad_transpose({}, {});", pairs, column_));
  declare_coordinates(coordinates(view, src, true), src, at);
  out_.line(
      fmt::format("store16({} + {}, {}, {});", to, src.dims[1].axis, pairs, row_limits.empty() ? "true" : row_limits));
  out_.close();
  out_.close();
}

}  // namespace astatide::cuda
