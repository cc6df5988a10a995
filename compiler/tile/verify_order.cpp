#include <algorithm>
#include <map>
#include <set>

#include "compiler/tile/parameters.h"
#include "compiler/tile/verify_flow.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

using OpenTokens = std::map<std::string, const Stmt*>;

class Tokens : public Flow<OpenTokens> {
 public:
  explicit Tokens(const Verified& v) : v_(v), rings_(v.accesses.rings()) {}

 protected:
  void visit(const Stmt& stmt, OpenTokens& open) override {
    if (const auto* s = std::get_if<Await>(&stmt.node)) {
      if (open.erase(s->token) == 0) v_.fail(stmt, "token " + s->token + " is not open");
      return;
    }
    if (const auto* s = std::get_if<Release>(&stmt.node))
      for (const auto& [token, started] : open)
        for (const Access& access : v_.accesses.of(*started).reads)
          if (access.name == s->tile)
            v_.fail(stmt, "token " + token + ", which has not been awaited for, reads the slot");
    for (const auto& [token, started] : open) {
      const std::string name = conflict_with(stmt, *started);
      if (!name.empty()) v_.fail(stmt, "touches " + name + ", which token " + token + " has not been awaited for");
    }
    const auto* mma = std::get_if<Mma>(&stmt.node);
    const auto* copy = std::get_if<Copy>(&stmt.node);
    const std::string token = mma ? mma->token : copy ? copy->token : "";
    if (!token.empty() && !open.emplace(token, &stmt).second) v_.fail(stmt, "token " + token + " is still open");
  }

  void join(const Stmt& at, OpenTokens& into, const OpenTokens& other) override {
    // A statement may start a token on each of two paths.
    for (const auto& [token, started] : into)
      if (!other.contains(token)) v_.fail(at, "token " + token + " is awaited or started on one path only");
    for (const auto& [token, started] : other)
      if (!into.contains(token)) v_.fail(at, "token " + token + " is awaited or started on one path only");
  }

  void end_of_body(const Stmt& stmt, const OpenTokens& before, const OpenTokens& after) override {
    for (const auto& [token, started] : after)
      if (!before.contains(token)) v_.fail(stmt, "token " + token + " is not awaited in the iteration that starts it");
    for (const auto& [token, started] : before)
      if (!after.contains(token)) v_.fail(stmt, "token " + token + " is awaited in every iteration, but started once");
  }

 private:
  /// What an open statement writes no other may touch, what it reads no other may write. Slots of a ring are apart:
  /// one is read, another is filled.
  std::string conflict_with(const Stmt& stmt, const Stmt& started) const {
    const Accesses& mine = v_.accesses.of(stmt);
    const Accesses& theirs = v_.accesses.of(started);
    const auto meet = [&](const std::vector<Access>& a, const std::vector<Access>& b) -> std::string {
      for (const Access& x : a) {
        if (rings_.contains(x.name)) continue;
        std::vector<TileName> names = v_.accesses.overlapping(x.name);
        names.push_back(x.name);
        for (const Access& y : b)
          if (std::find(names.begin(), names.end(), y.name) != names.end()) return y.name;
      }
      return "";
    };
    std::string found = meet(theirs.writes, mine.reads);
    if (found.empty()) found = meet(theirs.writes, mine.writes);
    if (found.empty()) found = meet(theirs.reads, mine.writes);
    return found;
  }

  const Verified& v_;
  const std::set<TileName>& rings_;
};

struct Slots {
  int filled = 0;  // reserved, not acquired
  int held = 0;    // acquired, not released
  friend bool operator==(const Slots&, const Slots&) = default;
};
using RingSlots = std::map<TileName, Slots>;

class Rings : public Flow<RingSlots> {
 public:
  explicit Rings(const Verified& v) : v_(v), reserved_(v.accesses.reserved()) {}

 protected:
  void visit(const Stmt& stmt, RingSlots& state) override {
    if (const auto* s = std::get_if<Reserve>(&stmt.node)) {
      Slots& slots = of(stmt, s->tile, state);
      if (!in_role() && slots.filled + slots.held == v_.kernel.find(s->tile)->ring)
        v_.fail(stmt, "all " + std::to_string(v_.kernel.find(s->tile)->ring) + " slots are taken: this never returns");
      ++slots.filled;
    } else if (const auto* s = std::get_if<Acquire>(&stmt.node)) {
      Slots& slots = of(stmt, s->tile, state);
      if (counts_filled(s->tile)) {
        if (slots.filled == 0) v_.fail(stmt, "no slot is full: this never returns");
        --slots.filled;
      }
      ++slots.held;
    } else if (const auto* s = std::get_if<Release>(&stmt.node)) {
      if (of(stmt, s->tile, state).held-- == 0) v_.fail(stmt, "no slot is held");
    } else {
      const Accesses& accesses = v_.accesses.of(stmt);
      for (const Access& access : accesses.reads)
        if (state.contains(access.name) && state.at(access.name).held == 0)
          v_.fail(stmt, access.name + " is read, but no slot of it is held");
      for (const Access& access : accesses.writes)
        if (reserved_.contains(access.name) && state.at(access.name).filled == 0)
          v_.fail(stmt, access.name + " is written, but no slot of it is reserved");
    }
  }

  void join(const Stmt& at, RingSlots& into, const RingSlots& other) override { end_of_body(at, other, into); }

  void end_of_body(const Stmt& stmt, const RingSlots& before, const RingSlots& after) override {
    for (const auto& [tile, slots] : after) {
      const Slots& start = before.at(tile);
      if (slots.held != start.held)
        v_.fail(stmt, std::to_string(slots.held) + " slots of " + tile + " are held at the end, " +
                          std::to_string(start.held) + " at the start");
      if (counts_filled(tile) && !std::holds_alternative<Role>(stmt.node) && slots.filled != start.filled)
        v_.fail(stmt, std::to_string(slots.filled) + " slots of " + tile + " are filled at the end, " +
                          std::to_string(start.filled) + " at the start");
    }
  }

 private:
  /// In a role another may fill the slots; copies without a reserve may stand under conditions, so that only a run can
  /// count them.
  bool counts_filled(const TileName& tile) const { return !in_role() && reserved_.contains(tile); }

  Slots& of(const Stmt& stmt, const TileName& tile, RingSlots& state) const {
    if (v_.kernel.find(tile)->space != Space::shared) v_.fail(stmt, tile + " is not in shared memory");
    return state.at(tile);
  }

  const Verified& v_;
  const std::set<TileName>& reserved_;
};

/// Whether the turn is this warpgroup's, and the rings of which it has given back a slot since it is.
struct TurnState {
  bool held = false;
  std::set<TileName> released;
  friend bool operator==(const TurnState&, const TurnState&) = default;
};

class Turns : public Flow<TurnState> {
 public:
  explicit Turns(const Verified& v) : v_(v) {}

 protected:
  void visit(const Stmt& stmt, TurnState& state) override {
    if (const auto* turn = std::get_if<Turn>(&stmt.node)) {
      const bool takes = turn->what == Turn::Do::take;
      if (takes == state.held) v_.fail(stmt, takes ? "the turn is held as it is" : "no turn is held");
      state = {takes, {}};
    } else if (const auto* release = std::get_if<Release>(&stmt.node)) {
      if (state.held) state.released.insert(release->tile);
    } else if (const auto* acquire = std::get_if<Acquire>(&stmt.node)) {
      // The others give their slot back in turns that come after this one.
      if (state.released.contains(acquire->tile))
        v_.fail(stmt, acquire->tile + " has been released in the same turn: this may never return");
    } else if (const auto* mma = std::get_if<Mma>(&stmt.node)) {
      if (mma->by == Family::wgmma && !state.held) v_.fail(stmt, "no turn is held");
    }
  }

  void join(const Stmt& at, TurnState& into, const TurnState& other) override {
    if (into.held != other.held) v_.fail(at, "a turn is held on one path only");
    into.released.insert(other.released.begin(), other.released.end());
  }

  void end_of_body(const Stmt& stmt, const TurnState& before, const TurnState& after) override {
    if (after.held && std::holds_alternative<Role>(stmt.node)) v_.fail(stmt, "a turn is held at the end");
    const auto* loop = std::get_if<For>(&stmt.node);
    if (loop && loop->kind != For::Kind::once && before.held != after.held)
      v_.fail(stmt, "a turn is held at one end of the body only");
  }

 private:
  const Verified& v_;
};

class Syncs : public Flow<ThreadConflicts> {
 public:
  explicit Syncs(const Verified& v) : v_(v) {}

 protected:
  void visit(const Stmt& stmt, ThreadConflicts& state) override {
    const std::string conflict = state.conflict_before(stmt);
    if (!conflict.empty()) v_.fail(stmt, conflict);
    state.run(stmt);
  }
  void join(const Stmt&, ThreadConflicts& into, const ThreadConflicts& other) override { into.join(other); }

 private:
  const Verified& v_;
};

void verify_within_warp(const Verified& v, const Block& block, bool in_warp) {
  for (const Stmt& stmt : block) {
    const bool block_wide = is_meeting(stmt) || std::holds_alternative<Turn>(stmt.node) ||
                            std::holds_alternative<Role>(stmt.node) || std::holds_alternative<Reserve>(stmt.node) ||
                            std::holds_alternative<Acquire>(stmt.node) || std::holds_alternative<Release>(stmt.node);
    const auto* mma = std::get_if<Mma>(&stmt.node);
    if (in_warp && (block_wide || (mma && mma->by == Family::wgmma) || view_stored_by_tma(stmt)))
      v.fail(stmt, "stands under a condition of a warp, but takes more than one");
    const auto* branch = std::get_if<If>(&stmt.node);
    if (const Block* body = nested_block(stmt))
      verify_within_warp(v, *body, in_warp || (branch && branch->uniform == If::Uniform::warp));
  }
}

}  // namespace

void verify_tokens(const Verified& v) {
  OpenTokens open;
  Tokens(v).run(v.kernel.body, open);
  if (!open.empty()) v.fail("token " + open.begin()->first + " is never awaited");
}

void verify_rings(const Verified& v) {
  RingSlots slots;
  for (const TileName& tile : v.accesses.rings()) slots[tile] = {};
  Rings(v).run(v.kernel.body, slots);
  for (const auto& [tile, left] : slots)
    if (left != Slots{}) v.fail(std::to_string(left.filled + left.held) + " slots of " + tile + " are never released");
}

void verify_turns(const Verified& v) {
  if (v.is_past("take_turns") && v.kernel.alternate) v.fail("the request for turns is left");
  for (const Stmt& stmt : v.kernel.body) {
    if (!has_turns({stmt})) continue;
    const auto* role = std::get_if<Role>(&stmt.node);
    if (!role || role->count < 2) v.fail(stmt, "turns of less than two warpgroups");
    TurnState state;
    Turns(v).run({stmt}, state);
  }
}

void verify_syncs(const Verified& v) {
  if (!v.is_past("insert_barriers") || v.kernel.threads() <= 1) return;
  // Roles meet at the slots of rings, not at syncs.
  const bool roles = std::any_of(v.kernel.body.begin(), v.kernel.body.end(),
                                 [](const Stmt& stmt) { return std::holds_alternative<Role>(stmt.node); });
  if (roles) return;
  ThreadConflicts state(v.accesses);
  Syncs(v).run(v.kernel.body, state);
}

void verify_uniformity(const Verified& v) { verify_within_warp(v, v.kernel.body, false); }

void verify_roles(const Verified& v) {
  std::map<TileName, const Role*> owners;
  walk(v.kernel.body, [&](const Stmt& stmt) {
    const auto* role = std::get_if<Role>(&stmt.node);
    if (!role) return;
    walk(role->body, [&](const Stmt& inner) {
      const bool together = std::holds_alternative<Sync>(inner.node) || std::holds_alternative<Turn>(inner.node);
      if (together && !v.kernel.warpgroup.empty())
        v.fail(inner, "warpgroups run loops of their own, and need not come here equally often");
      const Accesses& accesses = v.accesses.of(inner);
      for (const auto* list : {&accesses.reads, &accesses.writes}) {
        for (const Access& access : *list) {
          const Mem* mem = v.kernel.find(access.name);
          if (!mem || mem->space != Space::register_file) continue;
          const auto [owner, added] = owners.emplace(access.name, role);
          if (!added && owner->second != role)
            v.fail(inner, access.name + " is in the registers of role " + owner->second->name);
        }
      }
    });
  });
}

}  // namespace astatide::tile
