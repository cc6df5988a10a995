#include <set>

#include "compiler/support/diagnostic.h"

#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

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

bool is_dense_in(const Program& program, const std::string& tensor, int vector) {
  const Tensor* found = program.find_tensor(tensor);
  if (found->role != Tensor::Role::scratch || found->dims.empty()) return false;
  for (const std::string& name : free_variables(found->dims.back()))
    if (!program.known.contains(name)) return false;
  return evaluate_integer(found->dims.back(), program.known) % vector == 0;
}

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
    const bool counters = tensor.role == Tensor::Role::counters;
    out.push_back({counters ? Parameter::Kind::arrivals : Parameter::Kind::pointer, tensor.name});
    for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim)
      out.push_back({Parameter::Kind::stride, tensor.name, static_cast<int>(dim)});
  }
  for (const std::string& extent : program.extents) out.push_back({Parameter::Kind::extent, extent});
  for (const std::string& scalar : program.scalars) out.push_back({Parameter::Kind::scalar, scalar});
  if (kernel.persistent) out.push_back({Parameter::Kind::counter, "tile_counter"});
  return out;
}

}  // namespace astatide::tile
