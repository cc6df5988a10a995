#include "compiler/passes/join_loops.h"

#include <algorithm>

#include "compiler/passes/loop_chains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Map;
using tile::Mma;
using tile::Stmt;

/// Of each statement of the general body its counterpart in another one; null where that has none.
std::vector<const Stmt*> counterparts(const Block& general, const Block& special) {
  std::vector<const Stmt*> out;
  auto next = special.begin();
  for (const Stmt& stmt : general) {
    const bool found = next != special.end() && generalises(stmt, *next);
    out.push_back(found ? &*next++ : nullptr);
  }
  return out;
}

/// That an iteration of the joined loop is one of these loops'.
Expr is_in(const std::vector<For>& loops, const std::vector<std::size_t>& chosen) {
  std::optional<Expr> out;
  for (const std::size_t n : chosen) {
    const For& loop = loops[n];
    const Expr var = variable(loop.var);
    std::vector<Expr> tests;
    // What the joined loop itself says is left out.
    const bool lowest = n == (loop.descending ? loops.size() - 1 : 0);
    const bool highest = n == (loop.descending ? 0 : loops.size() - 1);
    if (!lowest) tests.push_back(less_equal(loop.begin, var));
    if (!highest) tests.push_back(less(var, loop.end));
    const Expr own = tests.size() == 1 ? tests[0] : call(Op::logical_and, {tests[0], tests[1]});
    out = out ? call(Op::logical_or, {*out, own}) : own;
  }
  return *out;
}

/// The statements of the joined body that stand for one of the general body; nothing where none can.
std::optional<Block> joined_statement(const Kernel& kernel, const std::vector<For>& loops, const Stmt& general,
                                      const std::vector<const Stmt*>& own) {
  // Loops by what they do.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> variants;
  for (std::size_t n = 0; n < loops.size(); ++n) {
    if (!own[n]) continue;
    const std::string text = tile::print(*own[n]);
    const auto same = std::find_if(variants.begin(), variants.end(), [&](const auto& v) { return v.first == text; });
    if (same == variants.end())
      variants.push_back({text, {n}});
    else
      same->second.push_back(n);
  }
  const bool in_all = std::none_of(own.begin(), own.end(), [](const Stmt* stmt) { return stmt == nullptr; });
  if (in_all && variants.size() == 1) return Block{general};
  if (std::holds_alternative<Mma>(general.node)) return std::nullopt;
  const auto* map = std::get_if<Map>(&general.node);
  // What one of two branches writes is there only where it was before, and what threads share would need a sync between
  // the two.
  const bool in_place = map && free_variables(map->value).contains(map->dst);
  const bool own_elements = map && (kernel.threads() <= 1 || kernel.find(map->dst)->space == Space::register_file);
  if (!in_place || !own_elements) return in_all ? std::optional(Block{general}) : std::nullopt;
  Block out;
  for (const auto& [text, chosen] : variants)
    out.push_back({tile::If{is_in(loops, chosen), tile::If::Uniform::block, false, {*own[chosen.front()]}}});
  return out;
}

std::optional<For> joined(const Kernel& kernel, const std::vector<For>& loops) {
  const auto general = std::find_if(loops.begin(), loops.end(), [&](const For& candidate) {
    return std::all_of(loops.begin(), loops.end(),
                       [&](const For& other) { return generalises(candidate.body, other.body); });
  });
  if (general == loops.end()) return std::nullopt;
  std::vector<std::vector<const Stmt*>> own;
  for (const For& loop : loops) own.push_back(counterparts(general->body, loop.body));
  For out = *general;
  out.note.clear();
  out.begin = (out.descending ? loops.back() : loops.front()).begin;
  out.end = (out.descending ? loops.front() : loops.back()).end;
  out.body.clear();
  for (std::size_t n = 0; n < general->body.size(); ++n) {
    std::vector<const Stmt*> of_loops;
    for (const auto& statements : own) of_loops.push_back(statements[n]);
    const std::optional<Block> statements = joined_statement(kernel, loops, general->body[n], of_loops);
    if (!statements) return std::nullopt;
    out.body.insert(out.body.end(), statements->begin(), statements->end());
  }
  return out;
}

/// Where the loops of a chain can't all be one, those that are left when its first stay as they are.
void append_joined(const Kernel& kernel, std::vector<For> loops, Block& out) {
  while (loops.size() > 1) {
    if (std::optional<For> one = joined(kernel, loops)) return out.push_back({std::move(*one)});
    out.push_back({std::move(loops.front())});
    loops.erase(loops.begin());
  }
  out.push_back({std::move(loops.front())});
}

}  // namespace

tile::Program join_loops(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels)
    if (!tile::on_tensor_cores(kernel.body))
      kernel.body = tile::transform_blocks(kernel.body, [&](Block block) {
        const auto is_serial = [](const For& loop) { return loop.kind == For::Kind::serial; };
        return replace_chains(std::move(block), is_serial, [&](std::vector<For> loops, Block& joined_block) {
          append_joined(kernel, std::move(loops), joined_block);
        });
      });
  return out;
}

}  // namespace astatide
