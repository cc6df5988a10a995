#include "compiler/cost/steps.h"

#include <set>

#include "compiler/tile/bounds.h"
#include "compiler/tile/statistics.h"

namespace astatide::cost {
namespace {

struct Flags {
  std::set<std::string> votes, arrivals;
};

Flags flags_of(const tile::Kernel& kernel) {
  Flags out;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* vote = std::get_if<tile::Vote>(&stmt.node)) out.votes.insert(vote->flag);
    if (const auto* arrive = std::get_if<tile::Arrive>(&stmt.node)) out.arrivals.insert(arrive->flag);
  });
  return out;
}

/// A flag of lanes says that something has grown out of its bounds: it is up in a few tiles of many, and down in all
/// others.
Taken taken_of(const tile::If& branch, const Flags& flags) {
  if (branch.cold) return Taken::never;
  const auto names = free_variables(branch.condition);
  for (const std::string& name : names) {
    if (flags.arrivals.contains(name)) return Taken::last;
    if (flags.votes.contains(name)) return branch.condition.is_call(Op::logical_not) ? Taken::always : Taken::never;
  }
  return Taken::condition;
}

std::vector<Step> make(const tile::Block& block, const tile::Kernel& kernel, const Demands& demands,
                       const Flags& flags) {
  std::vector<Step> out;
  for (const tile::Stmt& stmt : block) {
    Step& step = out.emplace_back();
    step.stmt = &stmt;
    step.demand = demands.of(stmt);
    if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) step.transfer = demands.transfer_of(*copy);
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    if (mma && mma->by == tile::Family::wgmma) step.product = demands.product_of(*mma);
    if (const auto* branch = std::get_if<tile::If>(&stmt.node)) {
      step.taken = taken_of(*branch, flags);
      step.begin = Bound(branch->condition);
    }
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) {
      step.begin = Bound(loop->begin);
      step.end = Bound(loop->end);
    }
    if (const auto* let = std::get_if<tile::Let>(&stmt.node))
      step.begin = Bound(let->own && !kernel.warpgroup.empty() ? *let->own : let->value);
    if (const tile::Block* nested = tile::nested_block(stmt)) step.body = make(*nested, kernel, demands, flags);
  }
  return out;
}

}  // namespace

Bound::Bound(const Expr& e) : bound_(tile::without_data(e)), known_(tensors_read(bound_).empty()) {
  for (const std::string& name : free_variables(bound_)) names_.push_back(name);
}

std::optional<std::int64_t> Bound::value(const Values& values) const {
  if (!known_) return std::nullopt;
  for (const std::string& name : names_)
    if (!values.contains(name)) return std::nullopt;
  return evaluate_integer(bound_, values);
}

Steps steps_of(const tile::Kernel& kernel, const Demands& demands) {
  Steps out;
  out.body = make(kernel.body, kernel, demands, flags_of(kernel));
  const auto count = [&](const tile::Block& block, int agents) {
    std::set<tile::TileName> released;
    tile::walk(block, [&](const tile::Stmt& stmt) {
      if (const auto* release = std::get_if<tile::Release>(&stmt.node)) released.insert(release->tile);
      if (const auto* reserve = std::get_if<tile::Reserve>(&stmt.node))
        out.slots[reserve->tile] = kernel.find(reserve->tile)->ring;
    });
    for (const tile::TileName& tile : released) out.readers[tile] += agents;
  };
  // A slot that nobody acquires is one that a store empties by itself: it is taken to be free in time.
  std::set<tile::TileName> acquired;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    if (const auto* acquire = std::get_if<tile::Acquire>(&stmt.node)) acquired.insert(acquire->tile);
  });
  bool roles = false;
  for (const tile::Stmt& stmt : kernel.body)
    if (const auto* role = std::get_if<tile::Role>(&stmt.node)) roles = true, count(role->body, role->count);
  if (!roles) count(kernel.body, demands.warps());
  std::erase_if(out.slots, [&](const auto& slots) { return !acquired.contains(slots.first); });
  return out;
}

}  // namespace astatide::cost
