#include "compiler/passes/relax_rescale.h"

#include <algorithm>
#include <set>

#include "compiler/rewrite/recurrence.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Advance;
using tile::Block;
using tile::Kernel;
using tile::Mem;
using tile::Stmt;

Stmt map_of(const std::string& dst, Expr value) {
  tile::Map map;
  map.dst = dst;
  map.value = std::move(value);
  return {map};
}

/// A tile like `model`, declared once.
void declare(Kernel& kernel, const std::string& name, const std::string& model) {
  if (kernel.find(name)) return;
  Mem mem = *kernel.find(model);
  mem.name = name;
  mem.partial.reset();
  kernel.mems.push_back(std::move(mem));
}

Expr updated(const Advance::Update& update) {
  const Expr old = variable(update.tile), candidate = variable(update.candidate);
  switch (update.op) {
    case Reduction::sum:
      return old + candidate;
    case Reduction::max:
      return max(old, candidate);
    case Reduction::min:
      return min(old, candidate);
    default:
      throw InternalError("advance of " + update.tile + " by an abbreviation");
  }
}

/// Moves in an order in which none reads a tile that has moved already; tiles with more axes first where that is free.
std::vector<Advance::Move> ordered(std::vector<Advance::Move> moves, const Kernel& kernel) {
  std::stable_sort(moves.begin(), moves.end(), [&](const Advance::Move& a, const Advance::Move& b) {
    return kernel.find(a.tile)->dims.size() > kernel.find(b.tile)->dims.size();
  });
  std::vector<Advance::Move> out;
  while (!moves.empty()) {
    const auto free = std::find_if(moves.begin(), moves.end(), [&](const Advance::Move& candidate) {
      return std::none_of(moves.begin(), moves.end(), [&](const Advance::Move& other) {
        return other.tile != candidate.tile && free_variables(other.by).contains(candidate.tile);
      });
    });
    if (free == moves.end())
      throw InternalError("advance: the moves of " + moves.front().tile + " and others read each other");
    out.push_back(*free);
    moves.erase(free);
  }
  return out;
}

Block expanded(const Advance& advance, Kernel& kernel) {
  Block out;
  for (const Advance::Update& update : advance.updates) {
    const std::string next = new_value_name(update.tile);
    declare(kernel, next, update.tile);
    out.push_back(map_of(next, updated(update)));
  }
  for (const Advance::Move& move : ordered(advance.moving, kernel)) out.push_back(map_of(move.tile, move.by));
  for (const Advance::Update& update : advance.updates)
    out.push_back(map_of(update.tile, variable(new_value_name(update.tile))));
  return out;
}

}  // namespace

tile::Program relax_rescale(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    kernel.body = tile::transform_blocks(kernel.body, [&](Block block) {
      Block result;
      for (Stmt& stmt : block) {
        if (const auto* advance = std::get_if<Advance>(&stmt.node)) {
          for (Stmt& step : expanded(*advance, kernel)) result.push_back(std::move(step));
        } else {
          result.push_back(std::move(stmt));
        }
      }
      return result;
    });
  }
  return out;
}

}  // namespace astatide
