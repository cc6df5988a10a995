#include "compiler/tile/synchronization.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/parameters.h"

namespace astatide::tile {
namespace {

using Kind = SyncOp::Kind;
using By = SyncOp::By;

SyncOp on_ring(Kind kind, const std::string& ring, bool writes, By by = By::all, int count = 0) {
  return {.kind = kind, .ring = ring, .writes = writes, .count = count, .by = by};
}

int bytes_of_slot(const Mem& mem) {
  return panel_columns(mem) * mem.dims[0].extent * static_cast<int>(size_in_bytes(mem.type));
}

/// Groups committed so far, in the order of the text, and that of each token.
struct Groups {
  int products = 0, copies = 0;
  std::map<std::string, int> product_of, copy_of;

  void number(Block& block) {
    for (Stmt& stmt : block) {
      if (const auto* mma = std::get_if<Mma>(&stmt.node); mma && mma->by == Family::wgmma) {
        ++products;
        if (!mma->token.empty()) product_of[mma->token] = products;
      } else if (const auto* copy = std::get_if<Copy>(&stmt.node)) {
        if (!copy->token.empty()) copy_of[copy->token] = ++copies;
      } else if (auto* await = std::get_if<Await>(&stmt.node)) {
        const auto product = product_of.find(await->token);
        const auto copied = copy_of.find(await->token);
        if (product != product_of.end()) await->open = products - product->second;
        if (copied != copy_of.end()) await->open = copies - copied->second;
      } else if (Block* body = nested_block(stmt)) {
        number(*body);
        if (std::holds_alternative<If>(stmt.node) && commits_copies(*body)) ++copies;
      }
    }
  }
};

}  // namespace

bool commits_copies(const Block& block) {
  return !block.empty() && std::all_of(block.begin(), block.end(), [](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    return copy && copy->via == Via::cp_async && copy->token.empty();
  });
}

void number_groups(Block& block) { Groups().number(block); }

namespace {

bool brings_lanes_together(const Stmt& stmt) {
  const auto* mma = std::get_if<Mma>(&stmt.node);
  const auto* copy = std::get_if<Copy>(&stmt.node);
  return (mma && mma->by != Family::fma) || (copy && copy->via == Via::ldmatrix) ||
         std::holds_alternative<AllReduce>(stmt.node) || std::holds_alternative<Vote>(stmt.node) ||
         std::holds_alternative<Turn>(stmt.node) || is_meeting(stmt);
}

/// `waited`: rings of which a slot has been acquired, and nothing has brought the lanes together since, on some path.
void mark_apart(Block& block, const std::set<TileName>& loaded, std::set<TileName>& waited) {
  for (Stmt& stmt : block) {
    if (Block* body = nested_block(stmt)) {
      std::set<TileName> inside = waited;
      mark_apart(*body, loaded, inside);
      const auto* loop = std::get_if<For>(&stmt.node);
      // Another loop, or a branch, need not run.
      if (loop && loop->kind == For::Kind::once)
        waited = std::move(inside);
      else
        waited.merge(inside);
    } else if (const auto* acquire = std::get_if<Acquire>(&stmt.node)) {
      if (loaded.contains(acquire->tile)) waited.insert(acquire->tile);
    } else if (auto* release = std::get_if<Release>(&stmt.node)) {
      if (waited.erase(release->tile) > 0) release->apart = true;
    } else if (brings_lanes_together(stmt)) {
      waited.clear();
    }
  }
}

}  // namespace

void mark_apart(Kernel& kernel) {
  // A block that takes one tile fills the slots that its last loops leave no more.
  if (!kernel.persistent) return;
  const std::set<TileName> loaded = tiles_loaded_by_tma(kernel.body);
  for (Stmt& stmt : kernel.body) {
    std::set<TileName> waited;
    if (auto* role = std::get_if<Role>(&stmt.node)) mark_apart(role->body, loaded, waited);
  }
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::make_barriers:
      return "make barriers";
    case Kind::fence_barriers:
      return "fence of new barriers";
    case Kind::wait:
      return "wait";
    case Kind::expect:
      return "expect";
    case Kind::arrive:
      return "arrive";
    case Kind::next_slot:
      return "next slot";
    case Kind::meet:
      return "meet";
    case Kind::meet_warp:
      return "meet in the warp";
    case Kind::meet_warpgroup:
      return "meet in the warpgroup";
    case Kind::meet_team:
      return "meet in the team";
    case Kind::meet_cluster:
      return "meet in the cluster";
    case Kind::take_turn:
      return "take turn";
    case Kind::pass_turn:
      return "pass turn";
    case Kind::fence_proxy:
      return "proxy fence";
    case Kind::fence_products:
      return "fence of products";
    case Kind::commit_products:
      return "commit products";
    case Kind::wait_products:
      return "wait for products";
    case Kind::commit_copies:
      return "commit copies";
    case Kind::wait_copies:
      return "wait for copies";
    case Kind::commit_stores:
      return "commit stores";
    case Kind::wait_stores:
      return "wait for stores";
    case Kind::give_registers:
      return "give registers";
    case Kind::take_registers:
      return "take registers";
  }
  return "";
}

std::string print(const SyncOp& op) {
  std::string out(name_of(op.kind));
  switch (op.kind) {
    case Kind::wait:
      out += std::string(op.writes ? " free " : " full ") + op.ring;
      break;
    case Kind::arrive:
      out += std::string(op.writes ? " full " : " free ") + op.ring;
      break;
    case Kind::expect:
      out += " " + std::to_string(op.count) + " bytes of " + op.ring;
      break;
    case Kind::next_slot:
      out += std::string(" to ") + (op.writes ? "write" : "read") + " of " + op.ring;
      break;
    case Kind::meet:
      out += " " + std::to_string(op.count) + " threads at barrier " + std::to_string(op.barrier);
      break;
    case Kind::wait_products:
    case Kind::wait_copies:
      out += ", at most " + std::to_string(op.count) + " open";
      break;
    case Kind::give_registers:
    case Kind::take_registers:
      out += " " + std::to_string(op.count);
      break;
    default:
      break;
  }
  return out;
}

Synchronization::Synchronization(const Kernel& kernel) : kernel_(kernel) {
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* mma = std::get_if<Mma>(&stmt.node)) {
      has_wgmma_ = has_wgmma_ || mma->by == Family::wgmma;
      // Others are done for a thread when its code has run.
      if (!mma->token.empty())
        waits_[mma->token] = mma->by == Family::wgmma ? std::optional(Kind::wait_products) : std::nullopt;
    }
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (!copy) return;
    if (!copy->token.empty()) waits_[copy->token] = Kind::wait_copies;
    if (view_stored_by_tma(stmt)) stored_by_tma_.insert(std::get<TileName>(copy->src));
    const auto* dst = std::get_if<TileName>(&copy->dst);
    if (dst && copy->multicast) filled_by_cluster_.insert(*dst);
    if (dst && copy->via == Via::cp_async) copied_asynchronously_.insert(*dst);
  });
  if (has_roles()) {
    const int warps = kernel.threads() / kWarp, blocks = kernel.cluster_blocks();
    const std::set<TileName> loaded = tiles_loaded_by_tma(kernel.body);
    int first = 0;
    const auto add = [&](std::string ring, int slots, int free_arrivals) {
      rings_.push_back({std::move(ring), slots, first, 1, free_arrivals});
      first += 2 * slots;
    };
    for (const Mem& mem : kernel.mems)
      if (loaded.contains(mem.name))
        add(mem.name, mem.ring, filled_by_cluster_.contains(mem.name) ? blocks * warps : warps);
    // Where another thread deals them out, producers take places, too.
    if (kernel.persistent)
      add(std::string(kTilePlaces), kTileSlots, kernel.deals_apart() ? blocks * (warps + 1) : warps);
  }
}

const SlotBarriers* Synchronization::find_ring(std::string_view name) const {
  const auto found =
      std::find_if(rings_.begin(), rings_.end(), [&](const SlotBarriers& ring) { return ring.ring == name; });
  return found == rings_.end() ? nullptr : &*found;
}

int Synchronization::barrier_count() const {
  return rings_.empty() ? 0 : rings_.back().first + 2 * rings_.back().slots;
}

SyncOps Synchronization::at_start() const {
  if (!has_roles()) return {};
  return {{.kind = Kind::make_barriers},
          {.kind = Kind::fence_barriers},
          kernel_.cluster ? SyncOp{.kind = Kind::meet_cluster}
                          : SyncOp{.kind = Kind::meet, .barrier = kBlockBarrier, .count = kernel_.block_threads()}};
}

// No block ends before the others have written their last into its shared memory.
SyncOps Synchronization::at_end() const { return kernel_.cluster ? SyncOps{{.kind = Kind::meet_cluster}} : SyncOps{}; }

SyncOps Synchronization::at_start(const Role& role) const {
  SyncOps out;
  const bool producer = role.name == "producer";
  if (role.registers > 0)
    out.push_back({.kind = producer ? Kind::give_registers : Kind::take_registers, .count = role.registers});
  // The first begins: it takes what the last has passed.
  if (has_turns(role.body))
    out.push_back({.kind = Kind::pass_turn, .barrier = 1 + role.count, .count = role.count, .by = By::last_group});
  return out;
}

SyncOps Synchronization::at_end(const Role& role) const {
  SyncOps out;
  // A block's shared memory has to last until TMA has read it.
  if (role.name != "producer" && !stored_by_tma_.empty()) out.push_back({.kind = Kind::wait_stores, .by = By::storing});
  // The last pass is waited for, too, so that every barrier ends as it began.
  if (has_turns(role.body))
    out.push_back({.kind = Kind::take_turn, .barrier = 1 + role.count, .count = role.count, .by = By::first_group});
  return out;
}

SyncOps Synchronization::of_reserve(const Reserve& reserve) const {
  if (!has_roles()) return {};
  if (stored_by_tma_.contains(reserve.tile))
    return {{.kind = Kind::wait_stores, .by = By::storing}, {.kind = Kind::meet_warpgroup, .barrier = 1}};
  return {on_ring(Kind::wait, reserve.tile, true)};
}

SyncOps Synchronization::of_acquire(const Acquire& acquire) const {
  if (has_roles()) {
    if (stored_by_tma_.contains(acquire.tile))
      return {{.kind = Kind::fence_proxy}, {.kind = Kind::meet_warpgroup, .barrier = 1}};
    return {on_ring(Kind::wait, acquire.tile, false)};
  }
  if (!copied_asynchronously_.contains(acquire.tile)) return {};
  return {{.kind = Kind::wait_copies, .ring = acquire.tile, .count = acquire.open}};
}

SyncOps Synchronization::of_release(const Release& release) const {
  SyncOps out;
  if (release.apart) out.push_back({.kind = Kind::meet_warp});
  if (has_roles()) {
    if (stored_by_tma_.contains(release.tile)) return out;  // the reserve in front of its next copy waits for that
    out.push_back(on_ring(Kind::arrive, release.tile, false, By::first_lane));
    out.push_back(on_ring(Kind::next_slot, release.tile, false));
  } else if (kernel_.find(release.tile)->ring > 1) {
    out.push_back(on_ring(Kind::next_slot, release.tile, false));
  }
  return out;
}

SyncOps Synchronization::behind_copy(const Copy& copy) const {
  if (std::holds_alternative<View>(copy.dst))
    return copy.via == Via::tma ? SyncOps{{.kind = Kind::commit_stores, .by = By::storing}} : SyncOps{};
  // Where a slot goes back to TMA once one lane says so, all lanes have read it, and in the order that TMA sees.
  if (copy.via == Via::ldmatrix)
    return has_roles() ? SyncOps{{.kind = Kind::fence_proxy}, {.kind = Kind::meet_warp}} : SyncOps{};
  const auto* dst = std::get_if<TileName>(&copy.dst);
  if (!dst || !std::holds_alternative<View>(copy.src)) return {};
  SyncOps out;
  if (copy.via != Via::tma && !copy.token.empty()) out.push_back({.kind = Kind::commit_copies});
  if (copy.via == Via::tma || kernel_.find(*dst)->ring > 1) out.push_back(on_ring(Kind::next_slot, *dst, true));
  return out;
}

SyncOps Synchronization::before(const Stmt& stmt) const {
  if (const auto* s = std::get_if<Reserve>(&stmt.node)) return of_reserve(*s);
  if (const auto* s = std::get_if<Acquire>(&stmt.node)) return of_acquire(*s);
  if (const auto* s = std::get_if<Release>(&stmt.node)) return of_release(*s);
  if (const auto* s = std::get_if<Await>(&stmt.node)) {
    const auto wait = waits_.find(s->token);
    if (wait == waits_.end()) throw InternalError("await of the unknown token " + s->token);
    return wait->second ? SyncOps{{.kind = *wait->second, .count = s->open}} : SyncOps{};
  }
  if (const auto* s = std::get_if<Turn>(&stmt.node)) {
    const int groups = kernel_.warpgroups();
    return {{.kind = s->what == Turn::Do::take ? Kind::take_turn : Kind::pass_turn,
             .barrier = 1 + groups,
             .count = groups}};
  }
  if (const auto* s = std::get_if<Sync>(&stmt.node)) {
    if (s->team && kernel_.threads() == kWarp) return {{.kind = Kind::meet_warp}};
    if (s->team) return {{.kind = Kind::meet_team, .barrier = 1, .count = kernel_.threads()}};
    SyncOps out;
    // What threads have written is read by wgmma's own proxy.
    if (has_wgmma_) out.push_back({.kind = Kind::fence_proxy});
    out.push_back({.kind = Kind::meet, .barrier = kBlockBarrier, .count = kernel_.block_threads()});
    return out;
  }
  if (std::holds_alternative<Arrive>(stmt.node))
    return {{.kind = Kind::meet,
             .barrier = has_roles() ? kRoleBarrier : kBlockBarrier,
             .count = kernel_.threads() * kernel_.teams}};
  if (const auto* s = std::get_if<Mma>(&stmt.node))
    return s->by == Family::wgmma ? SyncOps{{.kind = Kind::fence_products}} : SyncOps{};
  if (const auto* s = std::get_if<Copy>(&stmt.node))
    if (const auto* dst = std::get_if<TileName>(&s->dst); dst && s->via == Via::tma)
      return {on_ring(Kind::expect, *dst, true, By::all, bytes_of_slot(*kernel_.find(*dst)))};
  return {};
}

SyncOps Synchronization::after(const Stmt& stmt) const {
  if (const auto* s = std::get_if<Copy>(&stmt.node)) return behind_copy(*s);
  if (const auto* s = std::get_if<Acquire>(&stmt.node))
    return s->at.empty() ? SyncOps{}
                         : SyncOps{{.kind = Kind::fence_proxy}, {.kind = Kind::meet_warpgroup, .barrier = 1}};
  if (const auto* s = std::get_if<Mma>(&stmt.node); s && s->by == Family::wgmma) {
    SyncOps out{{.kind = Kind::commit_products}};
    if (s->token.empty()) out.push_back({.kind = Kind::wait_products});
    return out;
  }
  if (const auto* s = std::get_if<If>(&stmt.node)) return after(*s);
  if (std::holds_alternative<Arrive>(stmt.node)) return before(stmt);  // what the one that came last has seen, all see
  return {};
}

SyncOps Synchronization::after(const If& branch) const {
  return commits_copies(branch.body) ? SyncOps{{.kind = Kind::commit_copies}} : SyncOps{};
}

SyncOps Synchronization::before_dealing() const { return {on_ring(Kind::wait, std::string(kTilePlaces), true)}; }

SyncOps Synchronization::after_dealing() const {
  const std::string ring(kTilePlaces);
  return {on_ring(Kind::arrive, ring, true), on_ring(Kind::next_slot, ring, true)};
}

SyncOps Synchronization::before_taking() const { return {on_ring(Kind::wait, std::string(kTilePlaces), false)}; }

SyncOps Synchronization::after_taking(bool one_thread) const {
  const std::string ring(kTilePlaces);
  return {on_ring(Kind::arrive, ring, false, one_thread ? By::all : By::first_lane),
          on_ring(Kind::next_slot, ring, false)};
}

}  // namespace astatide::tile
