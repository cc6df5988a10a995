#include "compiler/passes/order_tiles.h"

#include <algorithm>

#include "compiler/passes/loop_chains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/scalar_type.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Stmt;

/// What an integer does while a variable grows.
enum class Trend : std::uint8_t { none, up, down, unknown };

Trend reversed(Trend trend) {
  if (trend == Trend::up) return Trend::down;
  return trend == Trend::down ? Trend::up : trend;
}

/// Of a sum, or of a minimum or maximum, of two.
Trend together(Trend a, Trend b) {
  if (a == Trend::none || a == b) return b;
  return b == Trend::none ? a : Trend::unknown;
}

/// Extents and tile axes are not negative.
Trend trend_of(const Expr& e, const std::string& name) {
  if (!free_variables(e).contains(name)) return Trend::none;
  if (e.as<Variable>()) return Trend::up;
  const auto* c = e.as<Call>();
  if (!c || c->args.size() != 2) return Trend::unknown;
  const Trend first = trend_of(c->args[0], name), second = trend_of(c->args[1], name);
  switch (c->op) {
    case Op::add:
    case Op::min:
    case Op::max:
      return together(first, second);
    case Op::sub:
      return together(first, reversed(second));
    case Op::mul:
    case Op::floor_div: {
      // By what does not change and is not negative.
      const bool swapped = c->op == Op::mul && first == Trend::none;
      if ((swapped ? first : second) != Trend::none || !tile::is_never_negative(c->args[swapped ? 0 : 1]))
        return Trend::unknown;
      return swapped ? second : first;
    }
    default:
      return Trend::unknown;
  }
}

/// How many iterations the outermost loops of a block run, those that follow each other together.
std::vector<Expr> lengths_of(const Block& block) {
  std::vector<Expr> out;
  std::map<std::string, Expr> lets;
  const For* last = nullptr;
  Expr begin, end;
  const auto close = [&] {
    if (last) out.push_back(substitute(end - begin, lets));
    last = nullptr;
  };
  for (const Stmt& stmt : block) {
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) lets.emplace(let->name, substitute(let->value, lets));
    const auto* loop = std::get_if<For>(&stmt.node);
    if (!loop || loop->kind != For::Kind::serial) continue;
    if (!last || !adjoin(*last, *loop)) {
      close();
      begin = loop->begin;
      end = loop->end;
    }
    (loop->descending ? begin : end) = loop->descending ? loop->begin : loop->end;
    last = loop;
  }
  close();
  return out;
}

/// What loops stream takes a quarter of the L2 cache, or more where that leaves blocks without a choice of tiles, but
/// never above five eighths: the rest is for what else goes through it, and each half of the cache of sm_90 also keeps
/// copies of what the other half holds.
constexpr std::int64_t kStreamedEighths = 2, kMostStreamedEighths = 5;
/// Tiles of a group for each multiprocessor, so that the longest of one follow the shortest of another evenly.
constexpr int kTilesEach = 2;

/// How many places an axis of a kernel's views has for all tiles, as far as extents let it be; nothing where only a
/// tile or a loop knows.
std::optional<Expr> length_of(const std::vector<const tile::View*>& views, const std::string& axis,
                              const std::set<std::string>& extents) {
  for (const tile::View* view : views)
    for (const tile::Coordinate& at : view->at) {
      if (at.axis != axis || !at.limit) continue;
      const Expr limit = tile::without_data(*at.limit);
      const std::set<std::string> names = free_variables(limit);
      if (tensors_read(limit).empty() && std::includes(extents.begin(), extents.end(), names.begin(), names.end()))
        return limit;
    }
  return std::nullopt;
}

std::vector<const tile::View*> multiplied_views(const Kernel& kernel, const std::string& tensor) {
  std::vector<const tile::View*> out;
  const auto look = [&](const tile::Operand& operand) {
    const auto* view = std::get_if<tile::View>(&operand);
    if (view && view->tensor == tensor) out.push_back(view);
  };
  tile::walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* mma = std::get_if<tile::Mma>(&stmt.node)) look(mma->lhs), look(mma->rhs);
  });
  return out;
}

/// The factors of how many elements of a tensor the tiles at one place of the axes after the first read together. A
/// dimension counts with its length where no place of those axes stands in it; else with the lengths of the view's own
/// axes in it. So the rows of a packed tensor, or of pages that a table names, are those of the longest item.
std::vector<Expr> lengths_streamed(const tile::Program& program, const Kernel& kernel, const std::string& name) {
  const std::set<std::string> extents(program.extents.begin(), program.extents.end());
  std::set<std::string> others;
  for (std::size_t n = 1; n < kernel.tiles.size(); ++n) others.insert(kernel.tiles[n].var);
  const tile::Tensor& tensor = *program.find_tensor(name);
  const std::vector<const tile::View*> views = multiplied_views(kernel, name);
  std::set<std::size_t> of_tiles;
  std::set<std::string> inside;  // axes of views, in dimensions with a tile's place
  for (const tile::View* view : views)
    for (std::size_t dim = 0; dim < view->indices.size(); ++dim) {
      const std::set<std::string> names = free_variables(view->indices[dim]);
      const bool has_place = std::any_of(names.begin(), names.end(), [&](const auto& n) { return others.contains(n); });
      if (has_place) of_tiles.insert(dim);
      for (const tile::Coordinate& at : view->at)
        if (has_place && names.contains(at.axis)) inside.insert(at.axis);
    }
  std::vector<Expr> out;
  std::set<std::size_t> counted = of_tiles;
  for (const std::string& axis : inside) {
    const auto length = length_of(views, axis, extents);
    if (!length) continue;
    out.push_back(*length);
    // What tells a row's place in its page is among the rows.
    for (const tile::View* view : views)
      for (std::size_t dim = 0; dim < view->indices.size(); ++dim)
        if (free_variables(view->indices[dim]).contains(axis)) counted.insert(dim);
  }
  for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim)
    if (!counted.contains(dim)) out.push_back(tensor.dims[dim]);
  return out;
}

/// How many tiles of the axes after the first have what they copy inside loops in `bytes` of the L2 cache together.
std::optional<Expr> fitting(const tile::Program& program, const Kernel& kernel, std::int64_t bytes) {
  std::vector<std::string> streamed;
  for (const tile::Staging& staging : kernel.stagings) {
    const auto is_at = [&](const tile::TileAxis& axis) { return axis.var == staging.at; };
    if (std::none_of(kernel.tiles.begin(), kernel.tiles.end(), is_at)) streamed.push_back(staging.tensor);
  }
  std::vector<Expr> groups;
  for (const std::string& name : streamed) {
    // Divided by one length after the other: their product may pass what an integer holds.
    Expr group(bytes / static_cast<std::int64_t>(streamed.size()) / size_in_bytes(program.find_tensor(name)->type));
    for (const Expr& length : lengths_streamed(program, kernel, name)) group = floor_div(group, max(length, Expr(1)));
    groups.push_back(group);
  }
  return tile::extreme(groups, Op::min);
}

std::optional<Expr> group_in_l2(const tile::Program& program, const Kernel& kernel, const Target& target) {
  const std::int64_t eighth = target.l2_bytes / 8;
  const auto small = fitting(program, kernel, eighth * kStreamedEighths);
  const auto large = fitting(program, kernel, eighth * kMostStreamedEighths);
  if (!small || !large) return std::nullopt;
  const Expr count = max(kernel.tiles.front().count, Expr(1));
  const Expr enough = floor_div(Expr(kTilesEach * target.multiprocessors - 1), count) + 1;
  return max(min(*large, max(*small, enough)), Expr(1));
}

void walk_downwards(Kernel& kernel) {
  const std::vector<Expr> lengths = lengths_of(tile::team_body(kernel));
  for (tile::TileAxis& axis : kernel.tiles) {
    Trend all = Trend::none;
    for (const Expr& length : lengths) {
      const Trend trend = trend_of(length, axis.var);
      // As long as extents let it be: which items are short no expression says.
      all = together(all, trend == Trend::unknown ? trend_of(tile::without_data(length), axis.var) : trend);
    }
    axis.descending = all == Trend::up;
  }
}

void order(const tile::Program& program, Kernel& kernel, const Target& target) {
  walk_downwards(kernel);
  const auto longest = std::find_if(kernel.tiles.begin(), kernel.tiles.end(),
                                    [](const tile::TileAxis& axis) { return axis.descending; });
  if (longest == kernel.tiles.end()) return;
  if (kernel.cluster && longest != kernel.tiles.begin())
    throw UserError(kernel.cluster->where,
                    "cluster: blocks are neighbours along " + kernel.cluster->var +
                        ", and persistent: longest_first takes the tiles along " + longest->var +
                        " one after the other",
                    {"persistent: linear", "gpu_blocks with the loop over " + longest->var + " first"});
  std::rotate(kernel.tiles.begin(), longest, longest + 1);
  if (kernel.tiles.size() > 1) kernel.tile_group = group_in_l2(program, kernel, target);
}

}  // namespace

tile::Program order_tiles(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (kernel.persistent == TileOrder::longest_first)
      order(program, kernel, target);
    else if (!kernel.persistent && kernel.threads() > 0)
      // Blocks of a grid start in its order, too.
      walk_downwards(kernel);
    if (kernel.persistent) kernel.persistent = TileOrder::linear;
  }
  return out;
}

}  // namespace astatide
