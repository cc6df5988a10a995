#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"

#include "compiler/tile/bounds.h"
#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide::tile {

namespace {

/// What r % length is added to in `index`, where nothing else reads the axis.
std::optional<Expr> beside_remainder(const Expr& index, const std::string& axis, const Expr& length) {
  const Expr remainder = mod(variable(axis), length);
  if (index == remainder) return Expr(0);
  if (!index.is_call(Op::add)) return std::nullopt;
  const Expr &a = index.as<Call>()->args[0], &b = index.as<Call>()->args[1];
  const Expr& rest = a == remainder ? b : a;
  if (!(a == remainder || b == remainder) || free_variables(rest).contains(axis)) return std::nullopt;
  return rest;
}

/// The dimensions along which an axis runs.
std::vector<std::size_t> dims_along(const View& view, const std::string& axis) {
  std::vector<std::size_t> out;
  for (std::size_t dim = 0; dim < view.indices.size(); ++dim)
    if (free_variables(view.indices[dim]).contains(axis)) out.push_back(dim);
  return out;
}

/// Sets the dimensions of the rows, if they have a form.
bool find_rows(const View& view, const std::string& axis, TiledView& form) {
  const std::vector<std::size_t> dims = dims_along(view, axis);
  if (dims.size() == 1) {
    const auto from = linear_in(view.indices[dims[0]], axis);
    if (!from || from->factor != 1) return false;
    form.row_dim = static_cast<int>(dims[0]);
    form.first_row = from->rest;
    return true;
  }
  if (dims.size() != 2) return false;
  for (const std::size_t side : {0, 1}) {
    const std::size_t slow = dims[side], fast = dims[1 - side];
    const Expr& quotient = view.indices[slow];
    if (!quotient.is_call(Op::floor_div) || !(quotient.as<Call>()->args[0] == variable(axis))) continue;
    const Expr& length = quotient.as<Call>()->args[1];
    const auto origin = beside_remainder(view.indices[fast], axis, length);
    if (!origin || free_variables(length).contains(axis)) continue;
    form.row_dim = static_cast<int>(slow);
    form.packed = PackedRows{static_cast<int>(fast), length, *origin};
    return true;
  }
  return false;
}

/// The same for rows in pages.
bool find_pages(const View& view, const std::string& axis, TiledView& form) {
  for (const std::size_t dim : dims_along(view, axis)) {
    std::optional<std::int64_t> length;
    visit(view.indices[dim], [&](const Expr& e) {
      if (!e.is_call(Op::mod) || !(e.as<Call>()->args[0] == variable(axis))) return;
      if (const auto* number = e.as<Call>()->args[1].as<Integer>(); number && number->value > 0) length = number->value;
    });
    if (!length) continue;
    const auto first = beside_remainder(view.indices[dim], axis, Expr(*length));
    if (!first) continue;
    const Expr page = floor_div(variable(axis), Expr(*length));
    PagedRows paged{*length, {}};
    bool found = true;
    for (const std::size_t other : dims_along(view, axis)) {
      if (other == dim) continue;
      const Expr rest = transform(view.indices[other], [&](const Expr& e) { return e == page ? Expr(0) : e; });
      found = found && !free_variables(rest).contains(axis);
      paged.dims.push_back(static_cast<int>(other));
    }
    if (!found || paged.dims.empty()) continue;
    form.row_dim = static_cast<int>(dim);
    form.first_row = *first;
    form.paged = std::move(paged);
    return true;
  }
  return false;
}

}  // namespace

std::optional<TiledView> tiled_view(const View& view, const Mem& tile) {
  if (tile.dims.size() != 2) return std::nullopt;
  TiledView form;
  const std::vector<std::size_t> columns = dims_along(view, tile.dims[1].axis);
  if (columns.size() != 1 || !(view.indices[columns[0]] == variable(tile.dims[1].axis))) return std::nullopt;
  form.column_dim = static_cast<int>(columns[0]);
  if (!find_rows(view, tile.dims[0].axis, form) && !find_pages(view, tile.dims[0].axis, form)) return std::nullopt;
  return form;
}

Expr TiledView::end_of_rows(const Tensor& tensor) const {
  const Expr& length = tensor.dims[static_cast<std::size_t>(row_dim)];
  return packed ? packed->length * length : length - first_row;
}

int TiledView::rows_of_box(int rows) const {
  return paged ? static_cast<int>(std::min<std::int64_t>(paged->length, rows)) : rows;
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
                    stored ? kStoredRows : form->rows_of_box(tile->dims[0].extent / shares),
                    stored != nullptr,
                    form->packed};
  });
  return map;
}

}  // namespace

std::optional<std::int64_t> known_stride(const Program& program, const std::string& tensor, std::size_t dim) {
  const Tensor* found = program.find_tensor(tensor);
  if (found->role != Tensor::Role::scratch) return std::nullopt;
  std::int64_t stride = 1;
  for (std::size_t behind = dim + 1; behind < found->dims.size(); ++behind) {
    for (const std::string& name : free_variables(found->dims[behind]))
      if (!program.known.contains(name)) return std::nullopt;
    stride *= evaluate_integer(found->dims[behind], program.known);
  }
  return stride;
}

bool is_dense_in(const Program& program, const std::string& tensor, int vector) {
  const Tensor* found = program.find_tensor(tensor);
  if (found->role == Tensor::Role::block) return evaluate_integer(found->dims.back(), {}) % vector == 0;
  if (found->role != Tensor::Role::scratch || found->dims.size() < 2) return false;
  const auto row = known_stride(program, tensor, found->dims.size() - 2);
  return row && *row % vector == 0;
}

std::vector<std::string> block_tensors_of(const Program& program, const Kernel& kernel) {
  std::set<std::string> stored;
  walk(kernel.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (const auto* view = copy ? std::get_if<View>(&copy->dst) : nullptr) stored.insert(view->tensor);
  });
  std::vector<std::string> out;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == Tensor::Role::block && stored.contains(tensor.name)) out.push_back(tensor.name);
  return out;
}

std::int64_t elements_of_team(const Tensor& tensor) {
  std::int64_t out = 1;
  for (std::size_t dim = 1; dim < tensor.dims.size(); ++dim) out *= evaluate_integer(tensor.dims[dim], {});
  return out;
}

std::vector<std::int64_t> strides_in_team(const Tensor& tensor) {
  std::vector<std::int64_t> out;
  std::int64_t stride = elements_of_team(tensor);
  for (std::size_t dim = 1; dim < tensor.dims.size(); ++dim)
    out.push_back(stride /= evaluate_integer(tensor.dims[dim], {}));
  return out;
}

Expr choice_of_parts(const ChosenParts& parts, const Expr& resident) {
  // Whole parts for all, in one wave: what a second wave computes at the end leaves most of a machine idle.
  return max(Expr(1), min(floor_div(resident, max(Expr(1), parts.blocks)), parts.most));
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
  if (kernel.exists) touched.merge(tensors_read(*kernel.exists));
  // A request that no statement stands for yet.
  for (const Staging& staging : kernel.stagings) touched.insert(staging.tensor);

  std::vector<Parameter> out;
  for (const Tensor& tensor : program.tensors) {
    if (!touched.contains(tensor.name) || tensor.role == Tensor::Role::block) continue;
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
