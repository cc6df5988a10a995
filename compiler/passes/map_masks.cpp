#include "compiler/passes/map_masks.h"

#include <algorithm>
#include <utility>

#include "compiler/algorithm/names.h"
#include "compiler/passes/names_in_kernel.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/round_up.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Coordinate;
using tile::For;
using tile::Kernel;
using tile::Map;
using tile::Stmt;
using tile::Tensor;

/// Tiles of columns are sorted in blocks of so many, and what is reduced for each of them comes in so many columns.
constexpr int kRows = 8, kColumns = 128, kThreadColumns = 32;
/// Sums of ones in f32 are exact up to here.
constexpr std::int64_t kMostCounted = std::int64_t{1} << 24;
/// What a tile of columns is, as a number: without an element, with some, with all.
constexpr int kSome = 1, kWhole = 2;

Expr one_where(const Expr& condition) { return select(condition, Expr(1.0), Expr(0.0)); }

[[noreturn]] void refuse(const Kernel& kernel, const std::string& message, std::vector<std::string> notes = {}) {
  notes.emplace_back("leave mask_map out: every tile that no interval shows to be empty is then computed, and tests");
  throw UserError(*kernel.mask_map, "mask_map: " + message, std::move(notes));
}

/// One kernel of those that make the map: rows are the tiles of columns, `along` what is reduced for each.
class MapKernel {
 public:
  MapKernel(const tile::Program& program, const Kernel& of, const std::string& name, const std::vector<Expr>& places,
            const Expr& rows)
      : names_(names_in_kernel(program, of)), places_(places), rows_(rows) {
    kernel_.name = name;
    kernel_.maps_masks = true;
    row = names_.fresh("t"), along = names_.fresh("x");
    row_var_ = names_.fresh(row + "_o"), along_var_ = names_.fresh(along + "_o");
    kernel_.tiles.push_back({row_var_, ceil_div(rows, Expr(kRows))});
    for (const Expr& place : places)
      kernel_.tiles.push_back(*std::find_if(of.tiles.begin(), of.tiles.end(),
                                            [&](const tile::TileAxis& axis) { return place == variable(axis.var); }));
    if (of.threads() == 0) return;
    kernel_.thread_rows = kRows;
    kernel_.thread_columns = kThreadColumns;
  }

  std::string row, along;  // axes, and the coordinates of elements

  std::string tile_of_rows(const std::string& base) { return declare(base, {{row, kRows}}); }
  std::string tile(const std::string& base) { return declare(base, {{row, kRows}, {along, kColumns}}); }
  Coordinate at_row() const { return {row, variable(row_var_) * Expr(kRows), rows_}; }
  Coordinate at_along(const Expr& length) const { return {along, variable(along_var_) * Expr(kColumns), length}; }
  void add(Stmt stmt) { kernel_.body.push_back(std::move(stmt)); }
  void add_loop(const Expr& length, Block body) {
    add({For{along_var_, Expr(0), ceil_div(length, Expr(kColumns)), For::Kind::serial, false, std::move(body), {}}});
  }
  void add_store(const std::string& tensor, const std::string& of_rows, const Expr& rows) {
    Coordinate at = at_row();
    at.limit = rows;
    add({tile::Copy{tile::View{tensor, indices(variable(row)), {at}, 0}, of_rows, tile::Via::store, {}, 0}});
  }
  /// A tensor at this place of the kernel's tiles and a tile of columns.
  Expr read_at(const std::string& tensor, const Expr& number) const { return read(tensor, indices(number)); }
  Kernel finish() { return std::move(kernel_); }

 private:
  std::vector<Expr> indices(const Expr& last) const {
    std::vector<Expr> out = places_;
    out.push_back(last);
    return out;
  }
  std::string declare(const std::string& base, std::vector<tile::Dim> dims) {
    tile::Mem mem;
    mem.name = names_.fresh(base);
    mem.space = Space::register_file;
    mem.dims = std::move(dims);
    kernel_.mems.push_back(mem);
    return mem.name;
  }

  FreshNames names_;
  const std::vector<Expr>& places_;
  const Expr rows_;
  Kernel kernel_;
  std::string row_var_, along_var_;
};

class Mapper {
 public:
  Mapper(tile::Program& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  /// The kernels that make the map; the kernel reads it from here on.
  std::vector<Kernel> run() {
    find_loop();
    find_places();
    add_tensors();
    std::vector<Kernel> out{find_kinds(), find_ranks(), list_tiles()};
    bool replaced = false;
    kernel_.body = tile::transform_blocks(kernel_.body, [&](Block block) {
      Block body;
      for (Stmt& stmt : block) {
        const auto* loop = std::get_if<For>(&stmt.node);
        if (loop && loop->var == masked_.loop_var && !std::exchange(replaced, true))
          split(*loop, body);
        else
          body.push_back(std::move(stmt));
      }
      return body;
    });
    kernel_.mask_map.reset();
    return out;
  }

 private:
  /// The loop over tiles of columns, all of whose masked maps have the same predicates.
  struct Masked {
    std::string loop_var;
    Expr count;  // of tiles
    std::vector<Expr> predicates;
    std::vector<Coordinate> at;
    Coordinate columns;
    int rows = 1, width = 1;
  };

  void find_loop() {
    int loops = 0;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      const auto* loop = std::get_if<For>(&stmt.node);
      if (!loop) return;
      bool masked = false;
      for (const Stmt& inner : loop->body)
        if (const auto* map = std::get_if<Map>(&inner.node); map && map->absent) {
          add_map(*loop, *map, !masked);
          masked = true;
        }
      loops += masked ? 1 : 0;
    });
    if (loops == 0) refuse(kernel_, "nothing in " + kernel_.name + " has a condition");
    if (loops > 1) refuse(kernel_, "conditions stand in " + std::to_string(loops) + " loops of " + kernel_.name);
    if (masked_.predicates.empty()) refuse(kernel_, "no element of " + kernel_.name + " has a condition");
    if (std::int64_t{masked_.rows} * masked_.width > kMostCounted)
      refuse(kernel_,
             "tiles have " + std::to_string(std::int64_t{masked_.rows} * masked_.width) + " elements, at most " +
                 std::to_string(kMostCounted) + " are counted",
             {"smaller tiles"});
  }

  void add_map(const For& loop, const Map& map, bool first) {
    const tile::Mem& mem = *kernel_.find(map.dst);
    const std::string& axis = mem.dims.back().axis;
    if (!first && !(map.where_predicates == masked_.predicates))
      refuse(kernel_, "not all that " + kernel_.name + " computes in a tile has the same condition: " + map.dst +
                          " has another");
    const auto column = std::find_if(map.at.begin(), map.at.end(),
                                     [&](const Coordinate& coordinate) { return coordinate.axis == axis; });
    const auto origin = column == map.at.end() ? std::nullopt : tile::linear_in(column->origin, loop.var);
    if (mem.dims.size() != 2 || loop.kind != For::Kind::serial || !origin || origin->factor != mem.dims.back().extent ||
        !origin->rest.is_constant(0) || !loop.begin.is_constant(0))
      refuse(kernel_, "the loop over " + loop.var + " does not run over all tiles of the reduced axis",
             {"loops over rows outside it, and no rfactor"});
    const std::set<std::string> names = free_variables(loop.end);
    if (!tensors_read(loop.end).empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return !contains(program_.extents, name);
        }))
      refuse(kernel_, "the reduced axis is not equally long everywhere: " + print_expr(loop.end, {}, true) + " tiles");
    if (!first) return;
    const bool varies_by_row = std::any_of(map.at.begin(), map.at.end(), [&](const Coordinate& coordinate) {
      return coordinate.axis == mem.dims.front().axis;
    });
    masked_ = {loop.var,
               loop.end,
               map.where_predicates,
               map.at,
               *column,
               varies_by_row ? mem.dims.front().extent : 1,
               mem.dims.back().extent};
  }

  /// The tile axes that the condition varies with, fastest last.
  void find_places() {
    std::set<std::string> names;
    for (const Expr& predicate : masked_.predicates) names.merge(free_variables(predicate));
    for (const Coordinate& coordinate : masked_.at) {
      if (names.erase(coordinate.axis) == 0 || coordinate.axis == masked_.columns.axis) continue;
      names.merge(free_variables(coordinate.origin));
      if (coordinate.limit) names.merge(free_variables(*coordinate.limit));
    }
    for (auto axis = kernel_.tiles.rbegin(); axis != kernel_.tiles.rend(); ++axis)
      if (names.erase(axis->var) > 0) {
        places_.push_back(variable(axis->var));
        dims_.push_back(axis->count);
      }
    for (const std::string& name : names)
      if (!contains(program_.extents, name) && !contains(program_.scalars, name))
        refuse(kernel_, "the condition depends on " + name + ", which is computed in the kernel");
  }

  void add_tensors() {
    FreshNames inside = names_in_kernel(program_, kernel_);
    const auto add = [&](const std::string& base, ScalarType type, const Expr& length, bool monotone) {
      Tensor tensor{inside.fresh(base), type, dims_, Tensor::Role::scratch, monotone};
      tensor.dims.push_back(length);
      program_.tensors.push_back(tensor);
      return tensor.name;
    };
    kinds_ = add("tile_kinds", ScalarType::f32, masked_.count, false);
    ranks_ = add("tile_ranks", ScalarType::f32, masked_.count, false);
    order_ = add("tile_order", ScalarType::i32, masked_.count, true);
    // One more than there are: where no tile is seen, the first that is peeled is behind the end, where nothing is.
    list_ = add("tile_list", ScalarType::i32, masked_.count + Expr(1), false);
  }

  /// The predicates at an element of a tile of columns: `x` counts its rows and columns. Places beyond the last row or
  /// column stand for the last, which changes neither whether some nor whether all are seen.
  Expr seen_at(const Expr& number, const Expr& x) const {
    std::map<std::string, Expr> places;
    const Expr width(masked_.width);
    const auto within = [](const Expr& place, const std::optional<Expr>& limit) {
      return limit ? max(min(place, *limit - Expr(1)), Expr(0)) : place;
    };
    for (const Coordinate& coordinate : masked_.at)
      places[coordinate.axis] = coordinate.axis == masked_.columns.axis
                                    ? within(number * width + mod(x, width), coordinate.limit)
                                    : within(coordinate.origin + floor_div(x, width), coordinate.limit);
    std::optional<Expr> all;
    for (const Expr& predicate : masked_.predicates) {
      const Expr here = substitute(predicate, places);
      all = all ? logical_and(*all, here) : here;
    }
    return *all;
  }

  /// Counts the elements of each tile that are seen.
  Kernel find_kinds() {
    MapKernel out(program_, kernel_, kernel_.name + "_kinds", places_, masked_.count);
    const std::string seen = out.tile("seen"), count = out.tile_of_rows("count"), kind = out.tile_of_rows("kind");
    const Expr number = variable(out.row);
    const int elements = masked_.rows * masked_.width;
    // More than the tile has: the last stands for them, too.
    const int counted = round_up(elements, kColumns);
    const Expr x = min(variable(out.along), Expr(elements - 1));
    Coordinate along = out.at_along(Expr(elements));
    along.limit.reset();
    out.add({tile::Fill{count, 0}});
    out.add_loop(Expr(elements),
                 {{Map{seen, std::nullopt, one_where(seen_at(number, x)), {}, std::nullopt, {out.at_row(), along}}},
                  {tile::RowReduce{count, Reduction::sum, seen, true, std::nullopt}}});
    Expr whole = one_where(equal(variable(count), Expr(static_cast<double>(counted))));
    if (masked_.columns.limit)
      whole = select(less_equal((number + Expr(1)) * Expr(masked_.width), *masked_.columns.limit), whole, Expr(0.0));
    out.add({Map{
        kind, std::nullopt, one_where(less(Expr(0.0), variable(count))) + whole, {}, std::nullopt, {out.at_row()}}});
    out.add_store(kinds_, kind, masked_.count);
    return out.finish();
  }

  /// Where each tile comes in the list: behind all that are more, and those in front of it that are as much.
  Kernel find_ranks() {
    MapKernel out(program_, kernel_, kernel_.name + "_ranks", places_, masked_.count);
    const std::string before = out.tile("before"), own = out.tile_of_rows("own"), rank = out.tile_of_rows("rank");
    const Expr other = out.read_at(kinds_, variable(out.along));
    const Expr equal_before = logical_and(equal(other, variable(own)), less(variable(out.along), variable(out.row)));
    const Expr comes_before = call(Op::logical_or, {less(variable(own), other), equal_before});
    out.add({tile::Fill{rank, 0}});
    out.add({Map{own, std::nullopt, out.read_at(kinds_, variable(out.row)), {}, std::nullopt, {out.at_row()}}});
    Coordinate rows = out.at_row();
    rows.limit.reset();
    out.add_loop(masked_.count,
                 {{Map{before, std::nullopt, one_where(comes_before), {}, 0.0, {rows, out.at_along(masked_.count)}}},
                  {tile::RowReduce{rank, Reduction::sum, before, true, std::nullopt}}});
    out.add_store(ranks_, rank, masked_.count);
    return out.finish();
  }

  Kernel list_tiles() {
    const Expr places = masked_.count + Expr(1);
    MapKernel out(program_, kernel_, kernel_.name + "_list", places_, places);
    const std::string is = out.tile("number_here"), kind = out.tile("kind_here"), number = out.tile_of_rows("number"),
                      order = out.tile_of_rows("order");
    const Expr row = variable(out.row), along = variable(out.along);
    const Expr here = equal(out.read_at(ranks_, along), row);
    Coordinate rows = out.at_row();
    rows.limit.reset();
    const std::vector<Coordinate> at{rows, out.at_along(masked_.count)};
    out.add({tile::Fill{number, 0}});
    out.add({tile::Fill{order, 0}});
    out.add_loop(masked_.count,
                 {{Map{is, std::nullopt, select(here, along, Expr(0)), {}, 0.0, at}},
                  {tile::RowReduce{number, Reduction::sum, is, true, std::nullopt}},
                  {Map{kind, std::nullopt, select(here, -out.read_at(kinds_, along), Expr(0.0)), {}, 0.0, at}},
                  {tile::RowReduce{order, Reduction::sum, kind, true, std::nullopt}}});
    const Expr behind = equal(row, masked_.count);
    out.add({Map{
        number, std::nullopt, variable(number) + select(behind, masked_.count, Expr(0)), {}, std::nullopt, {rows}}});
    out.add_store(list_, number, places);
    out.add_store(order_, order, masked_.count);
    return out.finish();
  }

  void split(const For& loop, Block& out) const {
    std::vector<Expr> first = places_;
    first.push_back(Expr(0));
    FreshNames names = names_in_kernel(program_, kernel_);
    const std::string whole = names.fresh(loop.var + "_full_end"), end = names.fresh(loop.var + "_end");
    const auto count_of = [&](int least) { return count_below(read(order_, first), masked_.count, Expr(1 - least)); };
    out.push_back({tile::Let{whole, count_of(kWhole)}});
    out.push_back({tile::Let{end, count_of(kSome)}});
    std::vector<Expr> here = places_;
    here.push_back(variable(loop.var));
    const Block body = tile::substitute(loop.body, {{loop.var, read(list_, here)}});
    For full = loop, partial = loop;
    full.end = partial.begin = variable(whole);
    partial.end = variable(end);
    full.note = "full", partial.note = "partial";
    full.body = without_tests(body);
    partial.body = body;
    // The list goes from the whole tiles to the others.
    out.push_back({loop.descending ? std::move(partial) : std::move(full)});
    out.push_back({loop.descending ? std::move(full) : std::move(partial)});
  }

  /// What is computed where every element is there. Rows beyond the last keep what they test where something is read.
  Block without_tests(const Block& body) const {
    const auto drop = [&](std::vector<Coordinate>& at) {
      for (Coordinate& coordinate : at)
        if (coordinate.axis == masked_.columns.axis && coordinate.limit == masked_.columns.limit)
          coordinate.limit.reset();
    };
    Block out;
    for (Stmt stmt : body) {
      if (auto* map = std::get_if<Map>(&stmt.node); map && map->absent) {
        map->where_predicates.clear();
        const bool reads = !tensors_read(map->value).empty();
        drop(map->at);
        bool limited = false;
        for (Coordinate& coordinate : map->at) {
          if (!reads) coordinate.limit.reset();
          limited = limited || coordinate.limit;
        }
        if (!limited) map->absent.reset();
        const std::set<std::string> used = free_variables(map->value);
        std::erase_if(map->at, [&](const Coordinate& c) { return !c.limit && !used.contains(c.axis); });
        if (!map->absent && map->value == variable(map->dst)) continue;
      } else if (auto* copy = std::get_if<tile::Copy>(&stmt.node)) {
        if (auto* view = std::get_if<tile::View>(&copy->src)) drop(view->at);
      } else if (auto* mma = std::get_if<tile::Mma>(&stmt.node)) {
        for (tile::Operand* operand : {&mma->lhs, &mma->rhs})
          if (auto* view = std::get_if<tile::View>(operand)) drop(view->at);
      }
      out.push_back(std::move(stmt));
    }
    return out;
  }

  tile::Program& program_;
  Kernel& kernel_;
  Masked masked_;
  std::vector<Expr> places_, dims_;
  std::string kinds_, ranks_, order_, list_;
};

}  // namespace

tile::Program map_masks(const tile::Program& program, const Target&) {
  tile::Program out = program;
  std::vector<Kernel> kernels;
  for (Kernel& kernel : out.kernels) {
    if (kernel.mask_map)
      for (Kernel& made : Mapper(out, kernel).run()) kernels.push_back(std::move(made));
    kernels.push_back(std::move(kernel));
  }
  out.kernels = std::move(kernels);
  return out;
}

}  // namespace astatide
