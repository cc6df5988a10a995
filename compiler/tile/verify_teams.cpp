// Rules about the teams of a block.

#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

using Names = std::set<std::string>;

/// What a statement touches, blocks in it included, but not a loop of teams.
void add_touched(const Verified& v, const Stmt& stmt, Names& out) {
  if (const auto* loop = std::get_if<For>(&stmt.node); loop && loop->kind == For::Kind::teams) return;
  const Accesses& accesses = v.accesses.of(stmt);
  for (const auto* list : {&accesses.reads, &accesses.writes})
    for (const Access& access : *list) out.insert(access.name);
  if (const Block* body = nested_block(stmt))
    for (const Stmt& inner : *body) add_touched(v, inner, out);
}

Names touched_in(const Verified& v, const Block& block) {
  Names out;
  for (const Stmt& stmt : block) add_touched(v, stmt, out);
  return out;
}

void verify_syncs_of_teams(const Verified& v, const Block& block, bool in_teams) {
  for (const Stmt& stmt : block) {
    const auto* loop = std::get_if<For>(&stmt.node);
    const auto* sync = std::get_if<Sync>(&stmt.node);
    if (sync && sync->team != in_teams)
      v.fail(stmt, in_teams ? "teams need not come here together" : "there are no teams here");
    if (const Block* body = nested_block(stmt))
      verify_syncs_of_teams(v, *body, in_teams || (loop && loop->kind == For::Kind::teams));
  }
}

/// What teams leave lies where their tiles lay: from a sync of the team on, no tile is touched any more.
void verify_left(const Verified& v, const For& teams, const std::vector<std::string>& tensors) {
  bool leaves = false, met = false;
  for (const Stmt& stmt : teams.body) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    const auto* view = copy ? std::get_if<View>(&copy->dst) : nullptr;
    if (view && contains(tensors, view->tensor)) {
      if (!met) v.fail(stmt, "the team has not met since it has read its tiles");
      leaves = true;
    }
    if (const auto* sync = std::get_if<Sync>(&stmt.node)) met = sync->team;
    Names touched;
    add_touched(v, stmt, touched);
    for (const std::string& name : touched) {
      const Mem* mem = v.kernel.find(name);
      if (!mem || mem->space != Space::shared) continue;
      if (leaves) v.fail(stmt, name + " lies where the team has left its state");
      met = false;
    }
  }
}

}  // namespace

void verify_teams(const Verified& v) {
  int loops = 0;
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    loops += loop && loop->kind == For::Kind::teams ? 1 : 0;
  });
  const For* teams = find_teams(v.kernel);
  if (loops != (v.kernel.teams > 1 ? 1 : 0) || (loops == 1 && !teams))
    v.fail("a kernel of " + std::to_string(v.kernel.teams) + " teams has " + std::to_string(loops) +
           " loops of teams, or one that does not stand in its body");
  const std::vector<std::string> tensors = block_tensors_of(v.program, v.kernel);
  if (!teams) {
    if (!tensors.empty()) v.fail(tensors.front() + " is of a block without teams");
    return;
  }
  if (!(teams->begin == Expr(0)) || !(teams->end == Expr(v.kernel.teams)))
    v.fail("the loop of teams does not run over their numbers");
  const Names inside = touched_in(v, teams->body), outside = touched_in(v, v.kernel.body);
  for (const std::string& name : outside) {
    const Mem* mem = v.kernel.find(name);
    if (mem && mem->space == Space::shared) v.fail(name + " is a team's tile, and is touched where there are no teams");
    if (mem && inside.contains(name)) v.fail(name + " is touched by a team, and by the block");
  }
  for (const std::string& name : tensors) {
    const auto* found = v.program.find_tensor(name);
    if (found->dims.empty() || !(found->dims.front() == Expr(v.kernel.teams)))
      v.fail(name + " has no place for each team");
  }
  if (!v.is_past("insert_barriers") || v.kernel.threads() == 0) return;
  verify_syncs_of_teams(v, v.kernel.body, false);
  verify_left(v, *teams, tensors);
  const auto at = std::find_if(v.kernel.body.begin(), v.kernel.body.end(),
                               [&](const Stmt& stmt) { return std::get_if<For>(&stmt.node) == teams; });
  const auto* sync = at + 1 != v.kernel.body.end() ? std::get_if<Sync>(&(at + 1)->node) : nullptr;
  if (!sync || sync->team) v.fail(*at, "behind it the threads of all teams meet");
}

}  // namespace astatide::tile
