#include "compiler/passes/fold_units.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Stmt;
using tile::TileName;

bool touches(const Stmt& stmt, const TileName& tile) {
  const tile::Effects effects = tile::effects_of(stmt);
  return contains(effects.reads, tile) || contains(effects.writes, tile);
}

/// Tiles that hold a number nothing has read yet.
using Fresh = std::map<TileName, double>;

/// The other operand, where value = op(tile, other) with the unit of op in the tile.
std::optional<Expr> merged_with(const Expr& value, const TileName& tile, double held) {
  const auto* c = value.as<Call>();
  if (!c) return std::nullopt;
  const bool is_unit = (c->op == Op::add && held == unit_of(Reduction::sum)) ||
                       (c->op == Op::max && held == unit_of(Reduction::max)) ||
                       (c->op == Op::min && held == unit_of(Reduction::min));
  if (!is_unit) return std::nullopt;
  for (std::size_t side : {0, 1})
    if (c->args[side] == variable(tile) && !free_variables(c->args[1 - side]).contains(tile)) return c->args[1 - side];
  return std::nullopt;
}

class Folder {
 public:
  explicit Folder(Fresh fresh) : fresh_(std::move(fresh)) {}

  Block run(const Block& body) {
    Block out;
    for (const Stmt& stmt : body) {
      for (Stmt& folded : fold(stmt)) out.push_back(std::move(folded));
    }
    return out;
  }

  /// Tiles whose fill nothing reads any more.
  const std::set<TileName>& overwritten() const { return overwritten_; }

 private:
  std::vector<Stmt> fold(const Stmt& stmt) {
    if (const auto* advance = std::get_if<tile::Advance>(&stmt.node)) return fold_advance(stmt, *advance);
    Stmt out = stmt;
    if (auto* reduce = std::get_if<tile::RowReduce>(&out.node)) {
      if (reduce->accumulate && holds(reduce->dst, unit_of(reduce->op))) {
        reduce->accumulate = false;
        overwritten_.insert(reduce->dst);
      }
    } else if (auto* mma = std::get_if<tile::Mma>(&out.node)) {
      if (mma->accumulate && holds(mma->dst, 0)) {
        mma->accumulate = false;
        overwritten_.insert(mma->dst);
      }
    } else if (auto* map = std::get_if<tile::Map>(&out.node)) {
      if (const auto held = fresh_.find(map->dst); held != fresh_.end() && !map->columns && !map->absent)
        if (const auto other = merged_with(map->value, map->dst, held->second)) {
          map->value = *other;
          overwritten_.insert(map->dst);
        }
    }
    forget(stmt);
    return {std::move(out)};
  }

  std::vector<Stmt> fold_advance(const Stmt& stmt, const tile::Advance& advance) {
    const bool all_fresh = std::all_of(advance.updates.begin(), advance.updates.end(),
                                       [&](const auto& update) { return holds(update.tile, unit_of(update.op)); }) &&
                           // A move leaves every unit what it is.
                           std::all_of(advance.moving.begin(), advance.moving.end(),
                                       [&](const auto& move) { return fresh_.contains(move.tile); });
    if (!all_fresh) {
      forget(stmt);
      return {stmt};
    }
    std::vector<Stmt> out;
    for (const tile::Advance::Update& update : advance.updates) {
      out.push_back({tile::Map{update.tile, std::nullopt, variable(update.candidate), {}, std::nullopt, {}}});
      overwritten_.insert(update.tile);
      fresh_.erase(update.tile);
    }
    return out;
  }

  bool holds(const TileName& tile, double value) const {
    const auto found = fresh_.find(tile);
    return found != fresh_.end() && found->second == value;
  }

  void forget(const Stmt& stmt) {
    std::erase_if(fresh_, [&](const auto& entry) { return touches(stmt, entry.first); });
  }

  Fresh fresh_;
  std::set<TileName> overwritten_;
};

Block fold_block(const Block& block) {
  Block out;
  Fresh fresh;
  for (const Stmt& stmt : block) {
    const auto* loop = std::get_if<For>(&stmt.node);
    if (loop && loop->kind == For::Kind::once) {
      Folder folder(fresh);
      For copy = *loop;
      copy.body = folder.run(loop->body);
      std::erase_if(out, [&](const Stmt& earlier) {
        const auto* fill = std::get_if<tile::Fill>(&earlier.node);
        return fill && folder.overwritten().contains(fill->dst) && fresh.contains(fill->dst);
      });
      out.push_back({std::move(copy)});
    } else {
      out.push_back(stmt);
    }
    std::erase_if(fresh, [&](const auto& entry) { return touches(stmt, entry.first); });
    if (const auto* fill = std::get_if<tile::Fill>(&stmt.node)) fresh[fill->dst] = fill->value;
  }
  return out;
}

}  // namespace

tile::Program fold_units(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (tile::Kernel& kernel : out.kernels) kernel.body = tile::transform_blocks(kernel.body, fold_block);
  return out;
}

}  // namespace astatide
