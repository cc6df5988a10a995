#include "compiler/passes/search_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/mask_ranges.h"
#include "compiler/passes/names_in_kernel.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Let;
using tile::Map;
using tile::Mem;
using tile::Stmt;

class RowSearcher {
 public:
  RowSearcher(const tile::Program& program, Kernel& kernel)
      : program_(program), kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  Block run(const Block& block) {
    Block out;
    const auto outer_counts = counts_;
    const auto outer_rows = rows_;
    for (Stmt stmt : block) {
      if (auto* let = std::get_if<Let>(&stmt.node)) let->value = with_named_counts(let->value, out);
      if (auto* loop = std::get_if<For>(&stmt.node)) {
        if (loop->kind == For::Kind::serial)
          search_in_front(*loop, out);
        else
          loop->body = run(loop->body);
      }
      out.push_back(std::move(stmt));
    }
    counts_ = outer_counts;
    rows_ = outer_rows;
    return out;
  }

 private:
  /// Each search in an expression is a let of its own, made once.
  Expr with_named_counts(const Expr& e, Block& out) {
    if (e.is_call(Op::count_below)) {
      const auto [found, added] = counts_.emplace(e, "");
      if (added) {
        found->second = names_.fresh("count");
        out.push_back({Let{found->second, e}});
      }
      return variable(found->second);
    }
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = with_named_counts(operand, out);
    return with_children(e, std::move(operands));
  }

  /// Searches of what the maps of a loop's body test; loops inside it come after it.
  void search_in_front(For& loop, Block& out) {
    Block in_front;
    for (Stmt& stmt : loop.body)
      if (auto* map = std::get_if<Map>(&stmt.node); map && map->absent) search(*map, loop, in_front);
    for (Stmt& stmt : in_front) out.push_back(std::move(stmt));
    loop.body = run(loop.body);
  }

  void search(Map& map, const For& loop, Block& in_front) {
    const Mem dst = *kernel_.find(map.dst);
    if (dst.space != Space::register_file || dst.dims.size() != 2) return;
    const std::string &row = dst.dims[0].axis, &column = dst.dims[1].axis;
    const auto at_row = std::find_if(map.at.begin(), map.at.end(), [&](const auto& c) { return c.axis == row; });
    if (at_row == map.at.end()) return;
    const std::set<std::string> changing = names_in(loop);
    const auto stays = [&](const Expr& e) {
      const std::set<std::string> names = free_variables(e);
      return std::none_of(names.begin(), names.end(),
                          [&](const std::string& name) { return name == column || changing.contains(name); });
    };
    if (!stays(at_row->origin) || (at_row->limit && !stays(*at_row->limit))) return;
    const tile::Coordinate coordinate = *at_row;
    std::vector<Expr> predicates = tile::conjuncts(map.where_predicates);
    bool ends = false;
    for (const SearchedPredicate& searched : mask_range(map, loop, program_, kernel_).searched) {
      const auto place = std::find(predicates.begin(), predicates.end(), searched.predicate);
      const bool found =
          place != predicates.end() && std::all_of(searched.sides.begin(), searched.sides.end(),
                                                   [&](const SearchedSide& side) { return stays(side.count); });
      if (!found) continue;
      std::vector<Expr> sides;
      for (const SearchedSide& side : searched.sides) {
        const Expr bound = variable(row_of(side, coordinate, dst.dims[0], in_front));
        sides.push_back(side.ends ? less(variable(column), bound) : call(Op::le, {bound, variable(column)}));
      }
      predicates.erase(place);
      predicates.insert(predicates.end(), sides.begin(), sides.end());
      ends = ends || std::any_of(searched.sides.begin(), searched.sides.end(),
                                 [](const SearchedSide& side) { return side.ends; });
    }
    map.where_predicates = std::move(predicates);
    if (ends) drop_limits(map, row, column);
  }

  /// No place that ends a row is beyond the columns' limit, and rows beyond theirs end at 0.
  static void drop_limits(Map& map, const std::string& row, const std::string& column) {
    std::set<std::string> used = free_variables(map.value), read = tensors_read(map.value);
    for (const Expr& predicate : map.where_predicates) {
      used.merge(free_variables(predicate));
      read.merge(tensors_read(predicate));
    }
    if (!read.empty()) return;
    for (tile::Coordinate& coordinate : map.at)
      if (coordinate.axis == row || coordinate.axis == column) coordinate.limit.reset();
    std::erase_if(map.at, [&](const tile::Coordinate& c) { return !c.limit && !used.contains(c.axis); });
  }

  /// The loop's variable and what its body sets.
  static std::set<std::string> names_in(const For& loop) {
    std::set<std::string> out{loop.var};
    tile::walk(loop.body, [&](const Stmt& stmt) {
      for (const std::string& name : tile::effects_of(stmt).writes) out.insert(name);
    });
    return out;
  }

  /// The tile of rows that holds a side's place; filled in front of the loop where that has not been done.
  std::string row_of(const SearchedSide& side, const tile::Coordinate& at, const tile::Dim& dim, Block& in_front) {
    const std::vector<Expr> key{side.count, at.origin, at.limit.value_or(Expr(-1)), Expr(dim.extent)};
    if (const auto found = rows_.find(key); found != rows_.end()) return found->second;
    Mem mem;
    mem.name = names_.fresh(side.ends ? "end" : "begin");
    mem.type = ScalarType::i32;
    mem.dims = {dim};
    kernel_.mems.push_back(mem);
    in_front.push_back({Map{mem.name, std::nullopt, between_named(side), {}, std::nullopt, {at}}});
    rows_.emplace(key, mem.name);
    return mem.name;
  }

  /// A side's search from its least place to its last, where those have been searched for already.
  Expr between_named(const SearchedSide& side) const {
    const auto least = counts_.find(side.least), most = counts_.find(side.most);
    if (least == counts_.end() || most == counts_.end()) return side.count;
    const auto& search = *side.count.as<Call>();
    Read first = *search.args[0].as<Read>();
    const Expr from = variable(least->second);
    first.indices.back() = tile::collect_terms(first.indices.back() + from);
    return from + count_below(Expr(ExprNode(first)), variable(most->second) - from, search.args[2]);
  }

  const tile::Program& program_;
  Kernel& kernel_;
  FreshNames names_;
  std::map<Expr, std::string> counts_;  // the let that holds a search, here
  // The tile that holds a side's places here, by what it looks for, the rows' origin and limit, and how many they are.
  std::map<std::vector<Expr>, std::string> rows_;
};

}  // namespace

tile::Program search_rows(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  if (!target.is_cuda()) return out;
  for (Kernel& kernel : out.kernels) kernel.body = RowSearcher(program, kernel).run(kernel.body);
  return out;
}

}  // namespace astatide
