#include "compiler/passes/peel_first.h"

#include <algorithm>

#include "compiler/passes/loop_chains.h"
#include "compiler/passes/names_in_kernel.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Stmt;

class Peeler {
 public:
  Peeler(const tile::Program& program, Kernel& kernel) : kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  Block run(Block block) {
    const auto wanted = [&](const For& loop) { return holds_product(loop, kernel_.overlap->product); };
    return replace_chains(std::move(block), wanted,
                          [&](std::vector<For> loops, Block& out) { peel(std::move(loops), out); });
  }

 private:
  const Block& general_body(const std::vector<For>& loops) const {
    for (const For& candidate : loops)
      if (std::all_of(loops.begin(), loops.end(),
                      [&](const For& other) { return generalises(candidate.body, other.body); }))
        return candidate.body;
    throw UserError(kernel_.overlap->where,
                    "overlap of " + kernel_.overlap->product + ": the loops over " + loops.front().var +
                        " test different things, so that none of their bodies may stand for the first tile",
                    {"leave overlap out"});
  }

  /// The body of a tile that is whole where one of the loops tests nothing: predicates are then tested once a tile. As
  /// it is where no loop or no map is so.
  static Block with_branches(const Block& body, const std::vector<For>& loops, const Expr& at) {
    const auto tests = [](const Stmt& stmt) {
      const auto* map = std::get_if<tile::Map>(&stmt.node);
      return map && map->absent;
    };
    const auto full = std::find_if(loops.begin(), loops.end(), [&](const For& loop) {
      return std::none_of(loop.body.begin(), loop.body.end(), tests);
    });
    if (full == loops.end()) return body;
    // No tile lies below the lowest of the loops.
    const For& lowest = loops.front().descending ? loops.back() : loops.front();
    Expr cut = less_equal(full->end, at);
    if (!(full->begin == lowest.begin)) cut = call(Op::logical_or, {less(at, full->begin), cut});
    Block out;
    for (const Stmt& stmt : body) {
      const auto* map = std::get_if<tile::Map>(&stmt.node);
      // A tensor is read inside the limits alone.
      if (!map || !map->absent || !tensors_read(map->value).empty()) {
        out.push_back(stmt);
        continue;
      }
      if (!(map->value == variable(map->dst))) out.push_back(without_masks(stmt));
      tile::Map mask = *map;
      mask.value = variable(map->dst);
      out.push_back({tile::If{cut, tile::If::Uniform::block, false, {{std::move(mask)}}}});
    }
    return out;
  }

  Expr let(Block& out, const Expr& bound, const Expr& value) {
    if (value.as<Integer>()) return value;
    const auto* name = bound.as<Variable>();
    const std::string fresh = names_.fresh(name ? name->name : base_);
    out.push_back({tile::Let{fresh, value}});
    return variable(fresh);
  }

  void peel(std::vector<For> loops, Block& out) {
    if (loops.size() == 1 && loops.front().kind == For::Kind::once) return out.push_back({std::move(loops.front())});
    const bool descending = loops.front().descending;
    base_ = loops.front().var + (descending ? "_begin" : "_end");
    For first = loops.front();
    first.kind = For::Kind::once;
    first.note = "first";
    first.body = general_body(loops);
    // Of an empty range this is the tile at its end, which no element is visible in.
    if (descending)
      first.begin = let(out, variable(first.var + "_first"), max(loops.back().begin, loops.front().end - 1));
    first.end = first.begin + 1;
    first.body = with_branches(first.body, loops, first.begin);
    // The bounds between the loops move so that the others share out what is left.
    Expr border = descending ? first.begin : first.end;
    for (For& loop : loops) {
      if (descending) {
        loop.end = border;
        border = loop.begin = &loop == &loops.back() ? loop.begin : let(out, loop.begin, min(loop.begin, first.begin));
      } else {
        loop.begin = border;
        border = loop.end = let(out, loop.end, max(loop.end, first.end));
      }
    }
    out.push_back({std::move(first)});
    for (For& loop : loops) out.push_back({std::move(loop)});
  }

  Kernel& kernel_;
  FreshNames names_;
  std::string base_;
};

}  // namespace

tile::Program peel_first(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (!kernel.overlap) continue;
    Peeler peeler(program, kernel);
    kernel.body = tile::transform_blocks(kernel.body, [&](Block block) { return peeler.run(std::move(block)); });
  }
  return out;
}

}  // namespace astatide
