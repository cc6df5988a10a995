#include <set>

#include "compiler/support/diagnostic.h"

#include "compiler/tile/ir.h"

namespace astatide::tile {

std::optional<TiledView> tiled_view(const View& view, const Mem& tile) {
  if (tile.dims.size() != 2) return std::nullopt;
  std::optional<int> rows, columns;
  for (std::size_t dim = 0; dim < view.indices.size(); ++dim) {
    const Expr& index = view.indices[dim];
    const std::set<std::string> names = free_variables(index);
    for (const auto& [axis, found] : {std::pair{tile.dims[0].axis, &rows}, std::pair{tile.dims[1].axis, &columns}}) {
      if (!names.contains(axis)) continue;
      if (*found || !(index == variable(axis))) return std::nullopt;
      *found = static_cast<int>(dim);
    }
  }
  if (!rows || !columns || *rows == *columns) return std::nullopt;
  return TiledView{*rows, *columns};
}

namespace {

/// Of a tensor that TMA copies, and nothing else reads.
std::optional<Parameter> tensor_map_of(const Kernel& kernel, const std::string& tensor) {
  std::optional<Parameter> map;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    const auto* view = copy && copy->via == Via::tma ? std::get_if<View>(&copy->src) : nullptr;
    if (!view || view->tensor != tensor || map) return;
    const Mem* tile = kernel.find(std::get<TileName>(copy->dst));
    const auto form = tiled_view(*view, *tile);
    if (!form) throw InternalError("a tile of " + tensor + " has no form that TMA copies");
    const int shares = copy->multicast ? kernel.cluster_blocks() : 1;
    map =
        Parameter{Parameter::Kind::tensor_map, tensor, form->row_dim, form->column_dim, tile->dims[0].extent / shares};
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
