#include "compiler/passes/relax_rescale.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/passes/try_references.h"
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
  return merged(update.op, variable(update.tile), variable(update.candidate));
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

/// One kernel.
class Relaxer {
 public:
  Relaxer(const tile::Program& program, Kernel& kernel) : kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  void run() {
    kernel_.body = tile::transform_blocks(kernel_.body, [this](const Block& block) { return relaxed(block); });
  }

 private:
  Block relaxed(const Block& block) {
    const auto is_advance = [](const Stmt& stmt) { return std::holds_alternative<Advance>(stmt.node); };
    const auto first = std::find_if(block.begin(), block.end(), is_advance);
    if (first == block.end()) return block;
    const auto& slack = std::get<Advance>(first->node).slack;
    if (slack && !slack->witnesses.empty()) {
      if (std::count_if(block.begin(), block.end(), is_advance) == 1 && !has_absent_elements(block))
        return tried(block, static_cast<std::size_t>(first - block.begin()));
    }
    Block out;
    for (const Stmt& stmt : block) {
      if (const auto* advance = std::get_if<Advance>(&stmt.node))
        append(out, moved(*advance));
      else
        out.push_back(stmt);
    }
    return out;
  }

  static bool has_absent_elements(const Block& block) {
    bool found = false;
    tile::walk(block, [&](const Stmt& stmt) {
      const auto* map = std::get_if<tile::Map>(&stmt.node);
      found = found || (map && map->absent);
    });
    return found;
  }

  static void append(Block& out, Block block) {
    for (Stmt& stmt : block) out.push_back(std::move(stmt));
  }

  /// At once, or, with a slack, where some reference would fall too far behind.
  Block moved(const Advance& advance) {
    if (!advance.slack) return expanded(advance, kernel_);
    std::map<std::string, Expr> made;
    for (const Advance::Update& update : advance.updates) made.emplace(new_value_name(update.tile), updated(update));
    // What is no number moves, as it would without a slack.
    const Expr growth = substitute(advance.slack->growth, made);
    const Expr grows = no(less_equal(growth, Expr(static_cast<double>(advance.slack->grow))));
    const std::string flag = flag_of("moved", advance);
    Block out;
    out.push_back({tile::Vote{flag, either(is_fresh(advance), grows)}});
    out.push_back({tile::If{variable(flag), tile::If::Uniform::warp, false, expanded(advance, kernel_)}});
    return out;
  }

  Block tried(const Block& block, std::size_t at) {
    const auto& advance = std::get<Advance>(block[at].node);
    TriedBlock parts = try_references(kernel_, block, at);
    const std::string flag = flag_of("moved", advance);
    Block again = by_one_warp(std::move(parts.candidates));
    append(again, expanded(advance, kernel_));
    append(again, parts.sums);
    Block out = std::move(parts.before);
    append(out, std::move(parts.sums));
    out.push_back({tile::Vote{flag, is_broken(advance)}});
    out.push_back({tile::If{variable(flag), tile::If::Uniform::warp, true, std::move(again)}});
    append(out, std::move(parts.after));
    return out;
  }

  /// wgmma takes four warps; mma.sync has the same accumulator and is one warp's. What hardly ever runs is kept short.
  static Block by_one_warp(Block block) {
    for (Stmt& stmt : block)
      if (auto* mma = std::get_if<tile::Mma>(&stmt.node); mma && mma->by == tile::Family::wgmma) {
        mma->by = tile::Family::mma_sync;
        mma->unroll = 1;
      }
    return block;
  }

  /// A reference has not seen an element yet. Nothing may be added relative to minus infinity, because every move from
  /// there is by 0.
  static Expr is_fresh(const Advance& advance) {
    std::optional<Expr> out;
    for (const Advance::Update& update : advance.updates) {
      const Expr fresh = equal(variable(update.tile), Expr(unit_of(update.op)));
      out = out ? either(*out, fresh) : fresh;
    }
    return *out;
  }

  /// A sum is too large, or no number.
  static Expr is_broken(const Advance& advance) {
    Expr out = is_fresh(advance);
    for (const tile::TileName& witness : advance.slack->witnesses)
      out = either(out, no(less_equal(variable(witness), std::ldexp(1.0, advance.slack->over))));
    return out;
  }

  static Expr no(const Expr& e) { return call(Op::logical_not, {e}); }
  static Expr either(const Expr& a, const Expr& b) { return call(Op::logical_or, {a, b}); }

  /// One name a reference, so that copies of a body stay alike.
  const std::string& flag_of(const std::string& base, const Advance& advance) {
    const auto [entry, added] = flags_.emplace(base + " " + advance.updates.front().tile, "");
    if (added) entry->second = names_.fresh(base);
    return entry->second;
  }

  Kernel& kernel_;
  FreshNames names_;
  std::map<std::string, std::string> flags_;
};

}  // namespace

tile::Program relax_rescale(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) Relaxer(program, kernel).run();
  return out;
}

}  // namespace astatide
