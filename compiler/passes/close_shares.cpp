#include "compiler/passes/close_shares.h"

#include <algorithm>
#include <map>

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

/// Tiles that hold a share, and of which operation.
using Shares = std::map<TileName, Reduction>;

class Closer {
 public:
  Block run(const Block& block, Shares& open) const {
    Block out;
    for (Stmt stmt : block) {
      for (const TileName& tile : needed_whole(stmt, open)) {
        if (adds_to(stmt, tile))
          throw InternalError("close_shares: a loop reads " + tile + " whole and adds shares to it");
        out.push_back({tile::AllReduce{tile, open.at(tile)}});
        open.erase(tile);
      }
      if (const Block* body = tile::nested_block(stmt)) {
        // What is open in front of a loop stays open inside: nothing there reads it whole.
        Shares inner = open;
        Block closed = run(*body, inner);
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
  static void update(const Stmt& stmt, Shares& open) {
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) {
      open.insert_or_assign(reduce->dst, reduce->op);
      return;
    }
    if (const auto* map = std::get_if<tile::Map>(&stmt.node))
      if (open.contains(map->dst) && scales(map->value, map->dst)) return;
    for (const std::string& name : tile::effects_of(stmt).writes) open.erase(name);
  }

  /// In the order in which they were left open, which is that of their names.
  static std::vector<TileName> needed_whole(const Stmt& stmt, const Shares& open) {
    std::vector<TileName> out;
    for (const auto& [tile, op] : open)
      if (reads_whole(stmt, tile, op)) out.push_back(tile);
    return out;
  }

  static bool reads_whole(const Stmt& stmt, const TileName& tile, Reduction op) {
    if (const Block* body = tile::nested_block(stmt)) {
      // A loop that writes the tile anew before it reads it needs nothing of what is open in front of it.
      for (const Stmt& inner : *body) {
        if (reads_whole(inner, tile, op)) return true;
        if (overwrites(inner, tile)) return false;
      }
      return false;
    }
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) return reduce->src == tile;
    if (const auto* map = std::get_if<tile::Map>(&stmt.node))
      if (map->dst == tile && op == Reduction::sum && scales(map->value, tile)) return false;
    const std::vector<std::string> reads = tile::effects_of(stmt).reads;
    return std::find(reads.begin(), reads.end(), tile) != reads.end();
  }

  static bool adds_to(const Stmt& stmt, const TileName& tile) {
    bool found = false;
    tile::walk({stmt}, [&](const Stmt& inner) {
      const auto* reduce = std::get_if<tile::RowReduce>(&inner.node);
      found = found || (reduce && reduce->accumulate && reduce->dst == tile);
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
};

/// Marks the tiles that hold shares between a reduction and its all_reduce.
void mark_partial(tile::Kernel& kernel) {
  tile::walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* reduce = std::get_if<tile::RowReduce>(&stmt.node)) kernel.find(reduce->dst)->partial = reduce->op;
  });
}

}  // namespace

tile::Program close_shares(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (tile::Kernel& kernel : out.kernels) {
    Shares open;
    kernel.body = Closer().run(kernel.body, open);
    mark_partial(kernel);
  }
  return out;
}

}  // namespace astatide
