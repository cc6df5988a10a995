#include "compiler/passes/loop_chains.h"

#include <algorithm>
#include <set>
#include <utility>

namespace astatide {
namespace {

using tile::Block;
using tile::Coordinate;
using tile::For;
using tile::Map;
using tile::Mma;
using tile::Stmt;
using tile::View;

/// Calls f on the coordinates of every view, and on every map, of a statement and of the blocks inside it.
template <class OnMap, class OnPlaces>
Stmt rebuilt(const Stmt& stmt, OnMap on_map, OnPlaces on_places) {
  const auto change = [&](Stmt& s) {
    if (auto* map = std::get_if<Map>(&s.node)) on_map(*map);
    if (auto* mma = std::get_if<Mma>(&s.node))
      for (tile::Operand* operand : {&mma->lhs, &mma->rhs})
        if (auto* view = std::get_if<View>(operand)) on_places(view->at);
    if (auto* copy = std::get_if<tile::Copy>(&s.node))
      if (auto* view = std::get_if<View>(&copy->src)) on_places(view->at);
  };
  Block out = tile::transform_blocks({stmt}, [&](Block block) {
    for (Stmt& s : block) change(s);
    return block;
  });
  return out.front();
}

void drop_limits(std::vector<Coordinate>& at) {
  for (Coordinate& coordinate : at) coordinate.limit.reset();
}

/// What a statement tests, as text.
std::set<std::string> tests_of(const Stmt& stmt) {
  std::set<std::string> out;
  const auto add_limits = [&](const std::vector<Coordinate>& at) {
    for (const Coordinate& coordinate : at)
      if (coordinate.limit) out.insert(coordinate.axis + " < " + to_string(*coordinate.limit));
  };
  rebuilt(
      stmt,
      [&](const Map& map) {
        add_limits(map.at);
        for (const Expr& predicate : map.where_predicates) out.insert(to_string(predicate));
      },
      add_limits);
  return out;
}

bool only_masks(const Stmt& stmt) {
  const auto* map = std::get_if<Map>(&stmt.node);
  return map && map->absent && map->value == variable(map->dst);
}

}  // namespace

bool adjoin(const For& before, const For& after) {
  if (before.var != after.var || before.descending != after.descending) return false;
  return before.descending ? after.end == before.begin : after.begin == before.end;
}

Block replace_chains(Block block, const std::function<bool(const For&)>& wanted,
                     const std::function<void(std::vector<For>, Block&)>& f) {
  Block out;
  std::vector<For> chain;
  const auto close = [&] {
    if (!chain.empty()) f(std::exchange(chain, {}), out);
  };
  for (Stmt& stmt : block) {
    auto* loop = std::get_if<For>(&stmt.node);
    const bool is_wanted = loop && wanted(*loop);
    if (!is_wanted || (!chain.empty() && !adjoin(chain.back(), *loop))) close();
    if (is_wanted)
      chain.push_back(std::move(*loop));
    else
      out.push_back(std::move(stmt));
  }
  close();
  return out;
}

bool holds_product(const For& loop, const tile::TileName& product) {
  return loop.kind != For::Kind::unrolled && std::any_of(loop.body.begin(), loop.body.end(), [&](const Stmt& inner) {
           const auto* mma = std::get_if<Mma>(&inner.node);
           return mma && mma->dst == product;
         });
}

Stmt without_masks(const Stmt& stmt) {
  return rebuilt(
      stmt,
      [](Map& map) {
        map.where_predicates.clear();
        map.absent.reset();
        drop_limits(map.at);
        const std::set<std::string> used = free_variables(map.value);
        std::erase_if(map.at, [&](const Coordinate& coordinate) { return !used.contains(coordinate.axis); });
      },
      drop_limits);
}

bool generalises(const Stmt& general, const Stmt& special) {
  if (tile::print(without_masks(general)) != tile::print(without_masks(special))) return false;
  const std::set<std::string> tested = tests_of(general), wanted = tests_of(special);
  return std::includes(tested.begin(), tested.end(), wanted.begin(), wanted.end());
}

bool generalises(const Block& general, const Block& special) {
  auto next = special.begin();
  for (const Stmt& stmt : general)
    if (next != special.end() && generalises(stmt, *next))
      ++next;
    else if (!only_masks(stmt))
      return false;
  return next == special.end();
}

}  // namespace astatide
