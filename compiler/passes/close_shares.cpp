#include "compiler/passes/close_shares.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Stmt;
using tile::TileName;

/// value = tile * factor: a share of a sum times a whole factor is a share of the product.
bool scales(const Expr& value, const TileName& tile) {
  if (value == variable(tile)) return true;
  const auto* c = value.as<Call>();
  if (!c || (c->op != Op::mul && c->op != Op::absorb)) return false;
  const auto factor = [&](std::size_t side) { return !free_variables(c->args[1 - side]).contains(tile); };
  return (scales(c->args[0], tile) && factor(0)) || (c->op == Op::mul && scales(c->args[1], tile) && factor(1));
}

/// The operands of value = tile + other; or {tile} where value = tile.
std::vector<TileName> operands_added(const Expr& value) {
  if (const auto* v = value.as<Variable>()) return {v->name};
  if (!value.is_call(Op::add)) return {};
  std::vector<TileName> out;
  for (const Expr& arg : value.as<Call>()->args)
    if (const auto* v = arg.as<Variable>()) out.push_back(v->name);
  return out.size() == 2 ? out : std::vector<TileName>{};
}

/// Maps that add a tile of shares to another one, l = l + l_tile, where nothing needs the tile whole, and the sum only
/// outside of the loop that adds to it. They need no reduction over lanes.
class SharedSums {
 public:
  explicit SharedSums(const tile::Kernel& kernel) {
    tile::walk(kernel.body, [&](const Stmt& stmt) {
      if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node))
        (reduce->op == Reduction::sum ? parts_ : whole_parts_).insert(reduce->dst);
      if (const auto* fill = std::get_if<tile::Fill>(&stmt.node); fill && fill->value != unit_of(Reduction::sum))
        other_sums_.insert(fill->dst);
    });
    // What is refused as a sum is read whole where it was one, so that more may be refused in the next round.
    for (std::size_t refused = SIZE_MAX; refused != whole_parts_.size() + other_sums_.size();) {
      refused = whole_parts_.size() + other_sums_.size();
      refuse_in(kernel.body, {});
    }
  }

  bool has(const tile::Map& map) const {
    if (map.absent || map.columns || other_sums_.contains(map.dst)) return false;
    const std::vector<TileName> operands = operands_added(map.value);
    const auto is_part = [&](const TileName& name) {
      return name != map.dst && parts_.contains(name) && !whole_parts_.contains(name);
    };
    const auto is_operand = [&](const TileName& name) { return name == map.dst || is_part(name); };
    return std::any_of(operands.begin(), operands.end(), is_part) &&
           std::all_of(operands.begin(), operands.end(), is_operand);
  }

 private:
  using Names = std::set<TileName>;

  /// Sums that a loop's body adds to, other than in loops inside it.
  void find_sums(const Block& block, Names& out) const {
    for (const Stmt& stmt : block) {
      if (const auto* map = std::get_if<tile::Map>(&stmt.node); map && has(*map)) out.insert(map->dst);
      if (const auto* branch = std::get_if<tile::If>(&stmt.node)) find_sums(branch->body, out);
    }
  }

  void refuse_in(const Block& block, const Names& sums) {
    for (const Stmt& stmt : block) {
      if (const Block* body = tile::nested_block(stmt)) {
        Names inner = sums;
        if (std::holds_alternative<tile::For>(stmt.node)) {
          inner.clear();
          find_sums(*body, inner);
        }
        refuse_in(*body, inner);
      } else {
        refuse(stmt, sums);
      }
    }
  }

  void refuse(const Stmt& stmt, const Names& sums) {
    if (std::holds_alternative<tile::Vote>(stmt.node) || std::holds_alternative<tile::Fill>(stmt.node)) return;
    const auto* map = std::get_if<tile::Map>(&stmt.node);
    if (map && has(*map)) return;
    const bool scaling = map && scales(map->value, map->dst);
    const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node);
    const tile::Effects effects = tile::effects_of(stmt);
    for (const TileName& name : reduce ? std::vector{reduce->src} : effects.reads) {
      if (scaling && name == map->dst) continue;
      whole_parts_.insert(name);
      if (sums.contains(name)) other_sums_.insert(name);
    }
    if (!reduce && !scaling) other_sums_.insert(effects.writes.begin(), effects.writes.end());
  }

  Names parts_;        // reduced from tiles
  Names whole_parts_;  // of those, read whole somewhere, or no sums
  Names other_sums_;   // written by something else too, or read whole in the loop that adds to them
};

/// Tiles that hold a share, and of which operation.
using Shares = std::map<TileName, Reduction>;

class Closer {
 public:
  explicit Closer(const SharedSums& sums) : sums_(sums) {}

  Block run(const Block& block, Shares& open) {
    Block out;
    for (std::size_t n = 0; n < block.size(); ++n) {
      Stmt stmt = block[n];
      check_paths(stmt);
      for (const TileName& tile : needed_whole(stmt, open)) {
        // Under a condition it is made whole there, where that is the only place.
        if (std::holds_alternative<tile::If>(stmt.node) && !needed_behind(block, n, tile, open.at(tile))) continue;
        if (adds_to(stmt, tile))
          throw InternalError("close_shares: a loop reads " + tile + " whole and adds shares to it");
        out.push_back({tile::AllReduce{tile, open.at(tile)}});
        open.erase(tile);
      }
      if (const Block* body = tile::nested_block(stmt)) {
        // What is open in front of a loop stays open inside: nothing there reads it whole.
        Shares inner = open;
        Block closed = run(*body, inner);
        if (std::holds_alternative<tile::If>(stmt.node))
          for (const auto& [tile, op] : open)
            if (!inner.contains(tile)) mixed_.insert(tile);
        open = std::move(inner);
        *tile::nested_block(stmt) = std::move(closed);
      } else {
        update(stmt, open);
      }
      out.push_back(std::move(stmt));
    }
    return out;
  }

 private:
  void check_paths(const Stmt& stmt) const {
    if (tile::nested_block(stmt)) return;
    for (const TileName& name : tile::effects_of(stmt).reads)
      if (mixed_.contains(name)) throw InternalError("close_shares: " + name + " is whole on one path only");
  }

  bool needed_behind(const Block& block, std::size_t n, const TileName& tile, Reduction op) const {
    while (++n < block.size()) {
      if (reads_whole(block[n], tile, op)) return true;
      if (overwrites(block[n], tile)) return false;
    }
    return false;
  }

  void update(const Stmt& stmt, Shares& open) {
    for (const std::string& name : tile::effects_of(stmt).writes) mixed_.erase(name);
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) {
      open.insert_or_assign(reduce->dst, reduce->op);
      return;
    }
    if (const auto* map = std::get_if<tile::Map>(&stmt.node)) {
      if (sums_.has(*map)) {
        open.insert_or_assign(map->dst, Reduction::sum);
        return;
      }
      if (open.contains(map->dst) && scales(map->value, map->dst)) return;
    }
    for (const std::string& name : tile::effects_of(stmt).writes) open.erase(name);
  }

  /// In the order in which they were left open, which is that of their names.
  std::vector<TileName> needed_whole(const Stmt& stmt, const Shares& open) const {
    std::vector<TileName> out;
    for (const auto& [tile, op] : open)
      if (reads_whole(stmt, tile, op)) out.push_back(tile);
    return out;
  }

  bool reads_whole(const Stmt& stmt, const TileName& tile, Reduction op) const {
    if (const Block* body = tile::nested_block(stmt)) {
      // A loop that writes the tile anew before it reads it needs nothing of what is open in front of it.
      for (const Stmt& inner : *body) {
        if (reads_whole(inner, tile, op)) return true;
        if (overwrites(inner, tile)) return false;
      }
      return false;
    }
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) return reduce->src == tile;
    // A vote is on what some lane holds.
    if (std::holds_alternative<tile::Vote>(stmt.node)) return false;
    if (const auto* map = std::get_if<tile::Map>(&stmt.node))
      if (sums_.has(*map) || (map->dst == tile && op == Reduction::sum && scales(map->value, tile))) return false;
    const std::vector<std::string> reads = tile::effects_of(stmt).reads;
    return std::find(reads.begin(), reads.end(), tile) != reads.end();
  }

  bool adds_to(const Stmt& stmt, const TileName& tile) const {
    bool found = false;
    tile::walk({stmt}, [&](const Stmt& inner) {
      const auto* reduce = std::get_if<tile::RowReduce>(&inner.node);
      const auto* map = std::get_if<tile::Map>(&inner.node);
      found = found || (reduce && reduce->accumulate && reduce->dst == tile) ||
              (map && map->dst == tile && sums_.has(*map));
    });
    return found;
  }

  static bool overwrites(const Stmt& stmt, const TileName& tile) {
    if (tile::nested_block(stmt)) return false;
    const tile::Effects effects = tile::effects_of(stmt);
    const auto has = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), tile) != names.end();
    };
    return has(effects.writes) && !has(effects.reads);
  }

  const SharedSums& sums_;
  std::set<TileName> mixed_;  // made whole on one of the paths to here
};

/// Marks the tiles that hold shares between a reduction and its all_reduce.
void mark_partial(tile::Kernel& kernel, const SharedSums& sums) {
  tile::walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) kernel.find(reduce->dst)->partial = reduce->op;
    if (const auto* map = std::get_if<tile::Map>(&stmt.node))
      if (sums.has(*map)) kernel.find(map->dst)->partial = Reduction::sum;
  });
}

}  // namespace

tile::Program close_shares(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (tile::Kernel& kernel : out.kernels) {
    Shares open;
    const SharedSums sums(kernel);
    kernel.body = Closer(sums).run(kernel.body, open);
    mark_partial(kernel, sums);
  }
  return out;
}

}  // namespace astatide
