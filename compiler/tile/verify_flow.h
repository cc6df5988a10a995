#pragma once

#include "compiler/tile/ir.h"

namespace astatide::tile {

/// Follows a block in the order in which it runs, with a state that is known at each statement: the frame of all rules
/// about order. Loops are followed until what holds at their head no longer changes.
template <class State>
class Flow {
 public:
  virtual ~Flow() = default;

  void run(const Block& block, State& state) {
    for (const Stmt& stmt : block) {
      visit(stmt, state);
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        run_loop(stmt, *loop, state);
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        const State before = state;
        enter_if(stmt, *branch, state);
        run(branch->body, state);
        leave_if(stmt, *branch, before, state);
      } else if (const auto* role = std::get_if<Role>(&stmt.node)) {
        State inside = state;
        in_role_ = true;
        run(role->body, inside);
        in_role_ = false;
        end_of_body(stmt, state, inside);
      }
    }
  }

 protected:
  /// An instruction, or what a for or an if evaluates before its block.
  virtual void visit(const Stmt& stmt, State& state) = 0;
  /// What holds where two paths meet.
  virtual void join(const Stmt& at, State& into, const State& other) = 0;
  virtual void enter_if(const Stmt&, const If&, State&) {}
  virtual void leave_if(const Stmt& stmt, const If&, const State& before, State& state) { join(stmt, state, before); }
  /// At the end of a loop's or a role's body that began with `before`.
  virtual void end_of_body(const Stmt&, const State& before, const State& after) {
    static_cast<void>(before);
    static_cast<void>(after);
  }
  bool in_role() const { return in_role_; }

 private:
  static bool runs(const For& loop) {
    if (loop.passes_once()) return true;
    const auto* begin = loop.begin.as<Integer>();
    const auto* end = loop.end.as<Integer>();
    return begin && end && begin->value < end->value;
  }

  void run_loop(const Stmt& stmt, const For& loop, State& state) {
    const State before = state;
    run(loop.body, state);
    end_of_body(stmt, before, state);
    // The states of a rule are finite and joins go one way; the bound is against a rule that breaks this.
    constexpr int kMaxRounds = 16;
    if (!loop.passes_once()) {
      State head = before;
      for (int round = 0; round < kMaxRounds; ++round) {
        State next = head;
        join(stmt, next, state);
        if (next == head) break;
        head = next;
        state = head;
        run(loop.body, state);
        end_of_body(stmt, head, state);
      }
    }
    if (!runs(loop)) join(stmt, state, before);
  }

  bool in_role_ = false;
};

}  // namespace astatide::tile
