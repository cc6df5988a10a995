#include "compiler/passes/overlap_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/passes/loop_chains.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Mma;
using tile::Stmt;
using tile::TileName;

/// Positions of the two products.
struct Products {
  std::size_t ahead = 0, delayed = 0;
};

Products products_of(const Block& body, const std::string& var, const tile::Overlap& request) {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n < body.size(); ++n)
    if (std::get_if<Mma>(&body[n].node)) all.push_back(n);
  if (all.size() != 2)
    refuse_overlap(request,
                   fmt::format("the loop over {} holds {} product{}, and two are overlapped", var, all.size(),
                               all.size() == 1 ? "" : "s"),
                   {"leave overlap out"});
  const auto is_ahead = [&](std::size_t n) { return std::get<Mma>(body[n].node).dst == request.product; };
  if (is_ahead(all[0]) == is_ahead(all[1]))
    refuse_overlap(request, fmt::format("both products of the loop over {} are added to {}", var, request.product),
                   {"leave overlap out"});
  return is_ahead(all[0]) ? Products{all[0], all[1]} : Products{all[1], all[0]};
}

/// What a branch on a flag does to the result of the delayed product, taken out of it where it may run behind the rest.
Block taken_out(tile::If& branch, const TileName& result) {
  Block taken, rest;
  for (Stmt& stmt : branch.body) {
    const bool changes_result = tile::effects_of(stmt).writes == std::vector{result};
    const auto passes = [&](const Stmt& before) { return tile::conflict(before, stmt); };
    if (!changes_result && std::any_of(taken.begin(), taken.end(), passes)) return {};
    (changes_result ? taken : rest).push_back(stmt);
  }
  if (taken.empty() || rest.empty()) return {};
  branch.body = std::move(rest);
  return taken;
}

Block with_split_branches(Block body, const TileName& result) {
  Block out;
  for (Stmt& stmt : body) {
    auto* branch = std::get_if<tile::If>(&stmt.node);
    const bool on_flag = branch && branch->condition.as<Variable>();
    Block taken = on_flag ? taken_out(*branch, result) : Block{};
    tile::If late;
    if (!taken.empty()) late = {branch->condition, branch->uniform, false, std::move(taken)};
    out.push_back(std::move(stmt));
    if (!late.body.empty()) out.push_back({std::move(late)});
  }
  return out;
}

}  // namespace

std::string first_line(const Stmt& stmt) {
  const std::string text = tile::print(stmt);
  return text.substr(0, text.find('\n'));
}

void refuse_overlap(const tile::Overlap& request, const std::string& why, std::vector<std::string> notes) {
  throw UserError(request.where, "overlap of " + request.product + ": " + why, std::move(notes));
}

std::string form_of(const Stmt& stmt) {
  Stmt form = without_masks(stmt);
  // The first product of a sum starts it, where the others add to it.
  if (auto* mma = std::get_if<Mma>(&form.node)) {
    mma->accumulate = true;
    mma->token.clear();
  }
  return tile::print(form);
}

std::size_t first_conflict(const Block& block, const Stmt& started) {
  const auto found =
      std::find_if(block.begin(), block.end(), [&](const Stmt& stmt) { return tile::conflict(stmt, started); });
  return static_cast<std::size_t>(found - block.begin());
}

std::string describe_conflict(const Stmt& stmt, const std::string& when, const Stmt& other) {
  const tile::Effects mine = tile::effects_of(stmt), theirs = tile::effects_of(other);
  const auto say = [&](const char* does, const std::string& name, const char* did) {
    return fmt::format("`{}`{} {} {}, which `{}` {}", first_line(stmt), when, does, name, first_line(other), did);
  };
  for (const std::string& name : mine.reads)
    if (contains(theirs.writes, name)) return say("reads", name, "writes");
  for (const std::string& name : mine.writes)
    if (contains(theirs.writes, name)) return say("writes", name, "writes, too");
  for (const std::string& name : mine.writes)
    if (contains(theirs.reads, name)) return say("writes", name, "reads");
  return fmt::format("`{}`{} stands between syncs", first_line(stmt), when);
}

IterationParts parts_of(const tile::For& loop, const tile::Overlap& request,
                        const std::optional<std::set<std::string>>& common) {
  const TileName result = std::get<Mma>(loop.body[products_of(loop.body, loop.var, request).delayed].node).dst;
  const Block body = with_split_branches(loop.body, result);
  const Products products = products_of(body, loop.var, request);
  enum class Part { ahead, middle, delayed };
  std::vector<Part> part(body.size(), Part::middle);

  // From the end: what nothing behind it in the iteration conflicts with can go to the end.
  for (std::size_t n = body.size(); n-- > 0;) {
    const bool is_product = n == products.delayed;
    const std::vector<std::string> writes = tile::effects_of(body[n]).writes;
    const bool changes_result = writes == std::vector{result} && n < products.delayed;
    if (n == products.ahead || !(is_product || changes_result)) continue;
    if (!is_product && common && !common->contains(form_of(body[n]))) continue;
    std::size_t reader = n + 1;
    while (reader < body.size() && (part[reader] == Part::delayed || !tile::conflict(body[reader], body[n]))) ++reader;
    if (reader == body.size()) {
      part[n] = Part::delayed;
    } else if (is_product) {
      refuse_overlap(request, describe_conflict(body[reader], " of the same tile", body[n]) + ", so it can't run later",
                     {"leave overlap out"});
    }
  }
  part[products.ahead] = Part::ahead;
  for (std::size_t n = products.ahead; n-- > 0;) {
    if (part[n] == Part::delayed) continue;
    for (std::size_t later = n + 1; later <= products.ahead; ++later)
      if (part[later] == Part::ahead && tile::conflict(body[n], body[later])) part[n] = Part::ahead;
  }

  IterationParts out;
  for (std::size_t n = 0; n < body.size(); ++n)
    (part[n] == Part::ahead ? out.ahead : part[n] == Part::delayed ? out.delayed : out.middle).push_back(body[n]);
  for (const Stmt& next : out.ahead)
    for (const Stmt& late : out.delayed)
      if (tile::conflict(next, late))
        refuse_overlap(request, describe_conflict(next, " of the next tile", late), {"leave overlap out"});
  return out;
}

}  // namespace astatide
