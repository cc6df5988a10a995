#include "compiler/passes/own_loops.h"

#include <algorithm>
#include <vector>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Stmt;

const For* loop_of(const Stmt& stmt) { return std::get_if<For>(&stmt.node); }

/// The range that loops over one variable share out, in the order in which they run.
struct Chain {
  std::size_t last = 0;  // the statement of the block that is the last loop
  Expr begin, end;       // of what they take from rings
  bool descending = false;
  std::vector<tile::TileName> rings;  // that every iteration takes a slot of
};

/// Of the loops over `var` from `first` on; what overlap has delayed out of the last iteration takes no new one.
Chain chain_at(const Block& block, std::size_t first) {
  const For& head = *loop_of(block[first]);
  Chain chain{first, head.begin, head.kind == For::Kind::once ? head.begin + 1 : head.end, head.descending, {}};
  for (std::size_t n = first; n < block.size(); ++n) {
    const For* loop = loop_of(block[n]);
    if (!loop || loop->var != head.var) continue;
    chain.last = n;
    if (loop->kind == For::Kind::serial && n > first)
      (chain.descending ? chain.begin : chain.end) = chain.descending ? loop->begin : loop->end;
    for (const Stmt& stmt : loop->body)
      if (const auto* acquire = std::get_if<tile::Acquire>(&stmt.node);
          acquire && !contains(chain.rings, acquire->tile))
        chain.rings.push_back(acquire->tile);
  }
  return chain;
}

/// Iterations from `begin` to `end` whose slots nobody here reads.
void add_skipped(Block& out, const For& like, const Chain& chain, const Expr& begin, const Expr& end) {
  if (begin == end) return;
  For loop{like.var, begin, end, For::Kind::serial, chain.descending, {}, "not seen by any row here"};
  for (const tile::TileName& ring : chain.rings) {
    loop.body.push_back({tile::Acquire{ring}});
    loop.body.push_back({tile::Release{ring, true}});
  }
  out.push_back({std::move(loop)});
}

}  // namespace

bool OwnLoops::takes(const tile::Let& let) {
  if (let.own) {
    own_.insert_or_assign(let.value.as<Variable>()->name, variable(let.name));
    lets_.push_back({let});
    return true;
  }
  const std::set<std::string> read = free_variables(let.value);
  const auto has_own = [&](const std::string& name) { return own_.contains(name); };
  if (std::any_of(read.begin(), read.end(), has_own)) {
    const std::string twin = names_.fresh(let.name + "_own");
    lets_.push_back({tile::Let{twin, substitute(let.value, own_)}});
    own_.insert_or_assign(let.name, variable(twin));
  }
  return false;
}

tile::Block OwnLoops::run(const Block& consumers) const {
  if (own_.empty()) return consumers;
  Block out = lets_;
  const Block body = with_skipped(consumers);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Block OwnLoops::with_skipped(const Block& block) const {
  const Block own = tile::substitute(block, own_);
  Block out;
  std::vector<std::string> done;
  std::size_t behind = 0;  // the last loop of a chain that is open
  std::optional<For> at_the_end;
  for (std::size_t n = 0; n < own.size(); ++n) {
    const For* loop = loop_of(own[n]);
    if (loop && !contains(done, loop->var)) {
      done.push_back(loop->var);
      const Chain all = chain_at(block, n), mine = chain_at(own, n);
      Block front, back;
      add_skipped(all.descending ? back : front, *loop, all, all.begin, mine.begin);
      add_skipped(all.descending ? front : back, *loop, all, mine.end, all.end);
      out.insert(out.end(), front.begin(), front.end());
      behind = all.last;
      if (!back.empty()) at_the_end = std::get<For>(back.front().node);
    }
    out.push_back(own[n]);
    if (at_the_end && n == behind) out.push_back({*std::exchange(at_the_end, std::nullopt)});
  }
  return out;
}

}  // namespace astatide
