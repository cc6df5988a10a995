#include "compiler/passes/insert_barriers.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Stmt;

/// What threads have read and written since the last sync.
struct Open {
  std::set<std::string> reads, writes;
  /// Tiles that asynchronous copies are filling: a sync ends none of those.
  std::set<std::string> in_flight;

  void sync() { reads.clear(), writes.clear(); }

  bool includes(const Open& other) const {
    return std::includes(reads.begin(), reads.end(), other.reads.begin(), other.reads.end()) &&
           std::includes(writes.begin(), writes.end(), other.writes.begin(), other.writes.end()) &&
           std::includes(in_flight.begin(), in_flight.end(), other.in_flight.begin(), other.in_flight.end());
  }
  void add(const Open& other) {
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    in_flight.insert(other.in_flight.begin(), other.in_flight.end());
  }
};

class Barriers {
 public:
  Barriers(const tile::Program& program, const tile::Kernel& kernel) {
    for (const std::string& tensor : tile::block_tensors_of(program, kernel)) of_block_.insert(tensor);
    for (const tile::Mem& mem : kernel.mems)
      if (mem.space == Space::shared) {
        shared_.insert(mem.name);
        if (mem.ring > 1) rings_.insert(mem.name), slots_.insert(slots_of(mem.name));
      }
    tile::walk(kernel.body, [&](const Stmt& stmt) {
      const auto* copy = std::get_if<tile::Copy>(&stmt.node);
      if (!copy) return;
      if (const auto* view = std::get_if<tile::View>(&copy->dst)) shared_.insert(view->tensor);
      if (const auto* name = std::get_if<tile::TileName>(&copy->dst); name && !copy->token.empty())
        tokens_.emplace(copy->token, *name);
    });
  }

  Block run(const Block& block, Open& open) const {
    Block out;
    for (const Stmt& stmt : block) {
      if (auto* loop = std::get_if<tile::For>(&stmt.node)) {
        tile::For copy = *loop;
        copy.body = loop->passes_once() ? run(loop->body, open) : run_loop(loop->body, open);
        if (loop->kind == tile::For::Kind::teams) copy.body = of_team(std::move(copy.body));
        out.push_back({copy});
        if (loop->kind != tile::For::Kind::teams) continue;
        // All teams end here.
        out.push_back({tile::Sync{}});
        open.sync();
      } else if (auto* branch = std::get_if<tile::If>(&stmt.node)) {
        run_branch(*branch, open, out);
      } else if (std::get_if<tile::Role>(&stmt.node)) {
        throw InternalError("insert_barriers: roles need rings, not syncs");
      } else {
        if (tile::is_meeting(stmt)) open.sync();
        if (const auto* acquired = std::get_if<tile::Acquire>(&stmt.node)) acquire(acquired->tile, open);
        if (const auto* await = std::get_if<tile::Await>(&stmt.node)) arrive(await->token, open);
        if (const auto* released = std::get_if<tile::Release>(&stmt.node)) release(released->tile, open);
        const Open own = accesses(stmt);
        if (conflicts(open, own)) {
          out.push_back({tile::Sync{}});
          open.sync();
        }
        open.add(own);
        out.push_back(stmt);
      }
    }
    return out;
  }

 private:
  /// What the threads of one team do: they meet by themselves, and once more in front of what they leave for the
  /// others, which lies where their tiles lay.
  Block of_team(Block body) const {
    const auto leaves = [&](const Stmt& stmt) {
      const auto* copy = std::get_if<tile::Copy>(&stmt.node);
      const auto* view = copy ? std::get_if<tile::View>(&copy->dst) : nullptr;
      return view && of_block_.contains(view->tensor);
    };
    const auto first = std::find_if(body.begin(), body.end(), leaves);
    if (first == body.end()) throw InternalError("insert_barriers: teams leave nothing");
    body.insert(first, {tile::Sync{}});
    return tile::transform_blocks(body, [](Block block) {
      for (Stmt& stmt : block)
        if (auto* sync = std::get_if<tile::Sync>(&stmt.node)) sync->team = true;
      return block;
    });
  }

  /// Entered with what is open in front of the loop, and again with what the body leaves open, until that adds nothing.
  Block run_loop(const Block& body, Open& open) const {
    Open entry = open;
    while (true) {
      Open exit = entry;
      Block out = run(body, exit);
      if (entry.includes(exit)) {
        open.add(exit);
        return out;
      }
      entry.add(exit);
    }
  }

  void run_branch(const tile::If& branch, Open& open, Block& out) const {
    tile::If copy = branch;
    // All threads need the sync that its first statement needs, and what follows the branch rarely needs another then.
    if (branch.uniform == tile::If::Uniform::block && !branch.body.empty() &&
        conflicts(open, accesses(branch.body.front()))) {
      out.push_back({tile::Sync{}});
      open.sync();
    }
    Open inner = open;
    copy.body = run(branch.body, inner);
    // Only some threads come here: they can't wait for the others inside.
    if (branch.uniform != tile::If::Uniform::block && has_sync(copy.body)) {
      out.push_back({tile::Sync{}});
      open.sync();
      inner = open;
      copy.body = run(branch.body, inner);
      if (has_sync(copy.body)) throw InternalError("insert_barriers: a sync is needed inside a branch of a warp");
    }
    open.add(inner);
    out.push_back({copy});
  }

  static bool has_sync(const Block& block) {
    bool found = false;
    tile::walk(block, [&](const Stmt& stmt) { found = found || tile::is_meeting(stmt); });
    return found;
  }

  /// A ring is two things: the slot that is read, and the slots that are filled.
  static std::string slots_of(const std::string& ring) { return ring + " filled"; }
  std::string filled(const std::string& name) const { return rings_.contains(name) ? slots_of(name) : name; }

  Open accesses(const Stmt& stmt) const {
    Open out;
    if (std::get_if<tile::Acquire>(&stmt.node) || std::get_if<tile::Release>(&stmt.node) || tile::is_meeting(stmt))
      return out;
    const tile::Effects effects = tile::effects_of(stmt);
    for (const std::string& name : effects.reads)
      if (shared_.contains(name)) out.reads.insert(name);
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    const bool asynchronous = copy && (copy->via == tile::Via::cp_async || copy->via == tile::Via::tma);
    for (const std::string& name : effects.writes)
      if (shared_.contains(name)) {
        out.writes.insert(filled(name));
        if (asynchronous) out.in_flight.insert(name);
      }
    return out;
  }

  /// The oldest filled slot becomes the one that is read.
  void acquire(const std::string& name, Open& open) const {
    if (open.writes.erase(filled(name)) > 0) open.writes.insert(name);
    // A thread waits for its own copies; that others have arrived it knows behind the next sync only.
    if (open.in_flight.contains(name)) open.writes.insert(name);
  }
  void arrive(const std::string& token, Open& open) const {
    const auto tile = tokens_.find(token);
    if (tile != tokens_.end() && open.in_flight.erase(tile->second) > 0) open.writes.insert(tile->second);
  }
  /// The slot that was read becomes one to fill.
  void release(const std::string& name, Open& open) const {
    if (open.reads.erase(name) > 0) open.reads.insert(filled(name));
  }

  static bool meet(const std::set<std::string>& a, const std::set<std::string>& b) {
    return std::any_of(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); });
  }
  bool conflicts(const Open& before, const Open& now) const {
    if (meet(before.writes, now.reads) || meet(before.reads, now.writes)) return true;
    return std::any_of(now.writes.begin(), now.writes.end(),
                       [&](const std::string& name) { return before.writes.contains(name) && !slots_.contains(name); });
  }

  std::set<std::string> shared_, rings_, of_block_;
  std::set<std::string> slots_;                // those that are filled: each statement fills one of its own
  std::map<std::string, std::string> tokens_;  // of copies, to the tile that each fills
};

}  // namespace

tile::Program insert_barriers(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (tile::Kernel& kernel : out.kernels) {
    // Roles meet at the slots of rings.
    if (kernel.threads() <= 1 || kernel.producers > 0) continue;
    Open open;
    kernel.body = Barriers(program, kernel).run(kernel.body, open);
  }
  return out;
}

}  // namespace astatide
