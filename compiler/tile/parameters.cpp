#include <set>

#include "compiler/support/diagnostic.h"

#include "compiler/tile/bounds.h"
#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide::tile {

std::optional<TiledView> tiled_view(const View& view, const Mem& tile) {
  if (tile.dims.size() != 2) return std::nullopt;
  const std::string &row = tile.dims[0].axis, &column = tile.dims[1].axis;
  std::optional<int> rows, columns;
  Expr first_row;
  for (std::size_t dim = 0; dim < view.indices.size(); ++dim) {
    const Expr& index = view.indices[dim];
    const std::set<std::string> names = free_variables(index);
    if (names.contains(row)) {
      const auto form = linear_in(index, row);
      if (rows || !form || form->factor != 1 || names.contains(column)) return std::nullopt;
      first_row = form->rest;
      rows = static_cast<int>(dim);
    } else if (names.contains(column)) {
      if (columns || !(index == variable(column))) return std::nullopt;
      columns = static_cast<int>(dim);
    }
  }
  if (!rows || !columns) return std::nullopt;
  return TiledView{*rows, *columns, first_row};
}

const View* view_stored_by_tma(const Stmt& stmt) {
  const auto* copy = std::get_if<Copy>(&stmt.node);
  return copy && copy->via == Via::tma ? std::get_if<View>(&copy->dst) : nullptr;
}

std::set<TileName> tiles_loaded_by_tma(const Block& block) {
  std::set<TileName> tiles;
  walk(block, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    const auto* tile = copy && copy->via == Via::tma ? std::get_if<TileName>(&copy->dst) : nullptr;
    if (tile) tiles.insert(*tile);
  });
  return tiles;
}

namespace {

/// Of a tensor that TMA copies, and nothing else touches.
std::optional<Parameter> tensor_map_of(const Kernel& kernel, const std::string& tensor) {
  std::optional<Parameter> map;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (!copy || copy->via != Via::tma || map) return;
    const View* stored = view_stored_by_tma(stmt);
    const View& view = stored ? *stored : std::get<View>(copy->src);
    if (view.tensor != tensor) return;
    const Mem* tile = kernel.find(std::get<TileName>(stored ? copy->src : copy->dst));
    const auto form = tiled_view(view, *tile);
    if (!form) throw InternalError("a tile of " + tensor + " has no form that TMA copies");
    const int shares = copy->multicast ? kernel.cluster_blocks() : 1;
    map = Parameter{Parameter::Kind::tensor_map,
                    tensor,
                    form->row_dim,
                    form->column_dim,
                    stored ? kStoredRows : tile->dims[0].extent / shares,
                    stored != nullptr};
  });
  return map;
}

}  // namespace

std::vector<Parameter> parameters_of(const Program& program, const Kernel& kernel) {
  std::set<std::string> touched;
  walk(kernel.body, [&](const Stmt& stmt) {
    const Effects effects = effects_of(stmt);
    touched.insert(effects.reads.begin(), effects.reads.end());
    touched.insert(effects.writes.begin(), effects.writes.end());
  });
  for (const TileAxis& axis : kernel.tiles)
    for (const std::string& tensor : tensors_read(axis.count)) touched.insert(tensor);
  // A request that no statement stands for yet.
  for (const Staging& staging : kernel.stagings) touched.insert(staging.tensor);

  std::vector<Parameter> out;
  for (const Tensor& tensor : program.tensors) {
    if (!touched.contains(tensor.name)) continue;
    if (const auto map = tensor_map_of(kernel, tensor.name)) {
      out.push_back(*map);
      continue;
    }
    out.push_back({Parameter::Kind::pointer, tensor.name});
    for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim)
      out.push_back({Parameter::Kind::stride, tensor.name, static_cast<int>(dim)});
  }
  for (const std::string& extent : program.extents) out.push_back({Parameter::Kind::extent, extent});
  for (const std::string& scalar : program.scalars) out.push_back({Parameter::Kind::scalar, scalar});
  if (kernel.persistent) out.push_back({Parameter::Kind::counter, "tile_counter"});
  return out;
}

}  // namespace astatide::tile
