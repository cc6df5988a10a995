#include "compiler/sim/code.h"

#include <algorithm>

#include "compiler/sim/parts.h"
#include "compiler/support/diagnostic.h"

namespace astatide::sim {

using tile::Kernel;
using tile::Stmt;
using tile::SyncOp;
using Kind = Step::Kind;

std::string_view name_of(Who who) {
  switch (who) {
    case Who::computing:
      return "consumer";
    case Who::producer:
      return "producer";
    case Who::dealer:
      return "dealer of tiles";
  }
  return "";
}

std::string_view name_of(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::remove:
      return "removed";
    case Change::Kind::other_phase:
      return "in the other phase";
    case Change::Kind::other_slot:
      return "at the next slot";
    case Change::Kind::keep_phase:
      return "without its phase";
    case Change::Kind::fewer:
      return "with fewer";
    case Change::Kind::more:
      return "with more";
  }
  return "";
}

bool changes_anything(const SyncOp& op, Change::Kind kind, const tile::Synchronization& sync) {
  const tile::SlotBarriers* ring = sync.find_ring(op.ring);
  switch (kind) {
    case Change::Kind::remove:
      return true;
    case Change::Kind::other_phase:
      return op.kind == SyncOp::Kind::wait;
    case Change::Kind::other_slot:
      return (op.kind == SyncOp::Kind::wait || op.kind == SyncOp::Kind::arrive || op.kind == SyncOp::Kind::expect) &&
             ring && ring->slots > 1;
    case Change::Kind::keep_phase:
      return op.kind == SyncOp::Kind::next_slot && ring && ring->slots > 1;
    case Change::Kind::fewer:
      return op.kind == SyncOp::Kind::expect || op.kind == SyncOp::Kind::meet || op.kind == SyncOp::Kind::make_barriers;
    case Change::Kind::more:
      return op.kind == SyncOp::Kind::expect || op.kind == SyncOp::Kind::meet ||
             op.kind == SyncOp::Kind::make_barriers || op.kind == SyncOp::Kind::wait_products ||
             op.kind == SyncOp::Kind::wait_copies;
  }
  return false;
}

namespace {

/// A block up to the end of its last loop: behind it places go back.
std::size_t behind_loops(const tile::Block& block) {
  std::size_t last = block.size();
  while (last > 0 && !std::holds_alternative<tile::For>(block[last - 1].node)) --last;
  return last;
}

class Builder {
 public:
  Builder(const Kernel& kernel, const tile::Synchronization& sync, tile::Machine& machine,
          const std::optional<Change>& change)
      : kernel_(kernel), sync_(sync), machine_(machine), change_(change) {}

  Codes make() {
    const tile::Role* consumer = nullptr;
    const tile::Role* producer = nullptr;
    for (const Stmt& stmt : kernel_.body)
      if (const auto* role = std::get_if<tile::Role>(&stmt.node))
        (role->name == "producer" ? producer : consumer) = role;
    if (!consumer) {
      begin(Who::computing, nullptr);
      add_block(kernel_.body);
      finish();
      return std::move(out_);
    }
    begin(Who::computing, consumer);
    add_role(*consumer);
    finish();
    begin(Who::producer, producer);
    add_role(*producer);
    finish();
    if (kernel_.deals_apart()) {
      begin(Who::dealer, nullptr);
      add_dealt({});
      finish();
    }
    return std::move(out_);
  }

 private:
  std::vector<Step>& steps() { return out_.codes.back().steps; }
  std::size_t here() { return steps().size(); }

  void begin(Who who, const tile::Role* role) {
    out_.codes.push_back({who, role, {}});
    // The barriers of a block are made once.
    int number = 0;
    for (const SyncOp& op : sync_.at_start()) {
      const bool all = op.kind == SyncOp::Kind::meet || op.kind == SyncOp::Kind::meet_cluster;
      if (who == Who::computing || all) add_op(op, "start", nullptr, common_site("start", op, number));
      ++number;
    }
  }

  void finish() {
    int number = 0;
    for (const SyncOp& op : sync_.at_end()) add_op(op, "end", nullptr, common_site("end", op, number++));
    steps().push_back({.kind = Kind::end});
  }

  int add_site(const std::string& role, const std::string& statement, const SyncOp& op) {
    out_.sites.push_back({role, statement, print(op), op});
    return static_cast<int>(out_.sites.size()) - 1;
  }
  /// One instruction that all roles run.
  int common_site(const std::string& where, const SyncOp& op, int number) {
    const auto [entry, added] = common_.emplace(where + std::to_string(number), 0);
    if (added) entry->second = add_site("all", where, op);
    return entry->second;
  }

  void add_op(const SyncOp& op, const std::string& statement, const Stmt* stmt = nullptr, int site = -1) {
    if (site < 0) site = add_site(std::string(name_of(out_.codes.back().who)), statement, op);
    Step step{.kind = Kind::sync, .stmt = stmt, .op = op, .site = site};
    if (change_ && change_->site == site) step.change = change_->kind;
    steps().push_back(std::move(step));
  }
  void add_ops(const tile::SyncOps& ops, const std::string& statement, const Stmt* stmt = nullptr) {
    for (const SyncOp& op : ops) add_op(op, statement, stmt);
  }

  void add_role(const tile::Role& role) {
    // The producers' warpgroup gives registers; only one of its threads goes on.
    add_ops(sync_.at_start(role), "role");
    if (!kernel_.persistent) {
      add_outside();
      add_block(role.body);
    } else if (role.name == "producer" && !kernel_.deals_apart()) {
      add_dealt(role.body);
    } else {
      add_taken(role.body, role.name == "producer");
    }
    add_ops(sync_.at_end(role), "end of the role");
  }

  void add_outside() {
    for (const Stmt& stmt : kernel_.body)
      if (!std::holds_alternative<tile::Role>(stmt.node)) add_statement(stmt);
  }

  void add_dealt(const tile::Block& body) {
    const std::size_t top = here();
    add_ops(sync_.before_dealing(), "next tile");
    steps().push_back({.kind = Kind::deal});
    add_ops(sync_.after_dealing(), "next tile");
    const std::size_t ended = here();
    steps().push_back({.kind = Kind::ended});
    if (out_.codes.back().who == Who::producer) {
      add_outside();
      add_block(body);
    }
    steps().push_back({.kind = Kind::jump, .target = top});
    steps()[ended].target = here();
  }

  void add_taken(const tile::Block& body, bool one_thread) {
    add_ops(sync_.before_taking(), "first tile");
    const std::size_t top = here();
    steps().push_back({.kind = Kind::take, .meets = !one_thread});
    add_outside();
    const std::size_t loops = behind_loops(body);
    for (std::size_t i = 0; i < loops; ++i) add_statement(body[i]);
    add_ops(sync_.after_taking(one_thread), "next tile");
    add_ops(sync_.before_taking(), "next tile");
    for (std::size_t i = loops; i < body.size(); ++i) add_statement(body[i]);
    steps().push_back({.kind = Kind::jump, .target = top});
    steps()[top].target = here();
  }

  void add_block(const tile::Block& block) {
    for (const Stmt& stmt : block) add_statement(stmt);
  }

  tile::Tape tape(const Expr& e) { return tile::TapeCompiler(machine_).compile(e); }

  void add_loop(const tile::For& loop, const Stmt& stmt) {
    Step head{.kind = Kind::loop, .stmt = &stmt};
    head.first = tape(loop.begin);
    head.past = tape(loop.end);
    head.variable = *machine_.find_slot(loop.var);
    head.once = loop.passes_once();
    head.of_team = loop.kind == tile::For::Kind::teams;
    head.descending = loop.descending;
    const std::size_t at = here();
    steps().push_back(std::move(head));
    add_block(loop.body);
    steps().push_back({.kind = Kind::next, .stmt = &stmt, .target = at + 1});
    steps()[at].target = here();
  }

  void add_branch(const tile::If& branch, const Stmt& stmt) {
    const std::size_t at = here();
    Step head{.kind = Kind::branch, .stmt = &stmt};
    head.first = tape(branch.condition);
    steps().push_back(std::move(head));
    add_block(branch.body);
    steps()[at].target = here();
    add_ops(sync_.after(stmt), head_of(stmt), &stmt);
  }

  void add_let(const tile::Let& let, const Stmt& stmt) {
    if (!let.own) return add_instruction(Kind::run, stmt, stmt);
    const bool own = out_.codes.back().who == Who::computing;
    add_instruction(Kind::run, stmt, keep({tile::Let{let.name, own ? *let.own : let.value}}));
  }

  const Stmt& keep(const Stmt& stmt) {
    out_.own.push_back(stmt);
    return out_.own.back();
  }

  void add_instruction(Kind kind, const Stmt& stmt, const Stmt& instruction) {
    Step step{.kind = kind, .stmt = &stmt};
    step.action = machine_.instruction(instruction);
    if (out_.codes.back().who == Who::computing) {
      step.parts = parts_of(kernel_, stmt);
      step.grid = grid_of_elements(kernel_, stmt);
    }
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    step.meets = std::holds_alternative<tile::AllReduce>(stmt.node) || std::holds_alternative<tile::Vote>(stmt.node) ||
                 (mma && mma->by != Family::fma);
    steps().push_back(std::move(step));
  }

  /// What the emitter writes to the accumulators in front of a product.
  void add_cleared(const tile::Mma& mma, const Stmt& stmt) {
    const Stmt& fill = keep({tile::Fill{mma.dst, 0}});
    Step step{.kind = Kind::run, .stmt = &stmt};
    step.action = machine_.instruction(fill);
    step.parts = parts_of(kernel_, fill);
    steps().push_back(std::move(step));
  }

  void add_acquire(const tile::Acquire& acquire, const Stmt& stmt) {
    add_ops(sync_.before(stmt), head_of(stmt), &stmt);
    if (acquire.at.empty() || !sync_.has_roles()) return;
    const std::size_t at = here();
    steps().push_back({.kind = Kind::rows, .stmt = &stmt});
    add_ops(sync_.after(stmt), head_of(stmt), &stmt);
    steps()[at].target = here();
  }

  void add_statement(const Stmt& stmt) {
    if (const auto* s = std::get_if<tile::For>(&stmt.node)) return add_loop(*s, stmt);
    if (const auto* s = std::get_if<tile::If>(&stmt.node)) return add_branch(*s, stmt);
    if (const auto* s = std::get_if<tile::Let>(&stmt.node)) return add_let(*s, stmt);
    if (const auto* s = std::get_if<tile::Acquire>(&stmt.node)) return add_acquire(*s, stmt);
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    if (mma && mma->by == Family::wgmma && !mma->accumulate) add_cleared(*mma, stmt);
    const auto* release = std::get_if<tile::Release>(&stmt.node);
    if (release && !sync_.has_roles() && kernel_.find(release->tile)->ring > 1)
      steps().push_back({.kind = Kind::give_back, .stmt = &stmt});
    add_ops(sync_.before(stmt), head_of(stmt), &stmt);
    const bool beside = (mma && mma->by == Family::wgmma) ||
                        (copy && (copy->via == tile::Via::tma || copy->via == tile::Via::cp_async));
    const bool touches =
        mma || copy || std::holds_alternative<tile::Fill>(stmt.node) || std::holds_alternative<tile::Map>(stmt.node) ||
        std::holds_alternative<tile::RowReduce>(stmt.node) || std::holds_alternative<tile::AllReduce>(stmt.node) ||
        std::holds_alternative<tile::Vote>(stmt.node) || std::holds_alternative<tile::Arrive>(stmt.node);
    if (touches) add_instruction(beside ? Kind::start : Kind::run, stmt, stmt);
    add_ops(sync_.after(stmt), head_of(stmt), &stmt);
  }

  const Kernel& kernel_;
  const tile::Synchronization& sync_;
  tile::Machine& machine_;
  const std::optional<Change>& change_;
  Codes out_;
  std::map<std::string, int> common_;
};

}  // namespace

Codes make_codes(const Kernel& kernel, const tile::Synchronization& sync, tile::Machine& machine,
                 const std::optional<Change>& change) {
  return Builder(kernel, sync, machine, change).make();
}

}  // namespace astatide::sim
