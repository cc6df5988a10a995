#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/tile/ir.h"

// How the threads of a kernel wait for each other and for the copies and products that run beside them: of each
// statement what stands in front of it and behind it, as data. The CUDA backend writes it as instructions, the
// simulator runs it, and a check counts it; nothing else decides where a barrier, a fence or a wait stands.

namespace astatide::tile {

/// The ring of a persistent kernel that passes on the places of its next tiles; no tile has this name.
inline constexpr std::string_view kTilePlaces = "next_tiles";
/// Threads of a warp and of a warpgroup.
inline constexpr int kWarp = 32, kWarpgroup = 128;
/// Named barriers of a block (PTX ISA, bar): number 0 is that of all its threads, the next are those of single
/// warpgroups and of their turns, or of teams, the last is that of a role.
inline constexpr int kBlockBarrier = 0, kRoleBarrier = 15;

struct SyncOp {
  enum class Kind : std::uint8_t {
    make_barriers,    // the barriers of all rings, by one thread
    fence_barriers,   // ... which all others see from here on, TMA included
    wait,             // until the slot of this side of a ring is full (read) or free (write)
    expect,           // arrives at the full barrier of the slot that is written, which takes `count` bytes more
    arrive,           // at the full (write) or free (read) barrier of the slot
    next_slot,        // of this side of a ring; behind the last comes the first, in the other phase
    meet,             // `count` threads at named barrier `barrier`
    meet_warp,        // the lanes of a warp
    meet_warpgroup,   // the threads of a warpgroup, at the barrier `barrier` + its number
    meet_team,        // the `count` threads of a team, at the barrier `barrier` + its number
    meet_cluster,     // all threads of all blocks of a cluster
    take_turn,        // waits at the barrier `barrier` + its number for the warpgroup before it, of `count`
    pass_turn,        // arrives at that of the next warpgroup
    fence_proxy,      // what this thread did in shared memory comes before what TMA and wgmma do there
    fence_products,   // what this thread did in registers comes before what wgmma does there
    commit_products,  // those since the last are a group
    wait_products,    // until at most `count` groups are open
    commit_copies,    // cp.async
    wait_copies,
    commit_stores,   // TMA to global memory
    wait_stores,     // until shared memory has been read by all groups
    give_registers,  // down to `count`
    take_registers,  // up to `count`
  };
  enum class By : std::uint8_t {
    all,          // threads that come here
    first_lane,   // of each warp
    storing,      // the first thread of each warpgroup
    first_group,  // the threads of warpgroup 0
    last_group,   // ... and of the last
  };
  Kind kind = Kind::meet;
  std::string ring{};
  bool writes = false;
  int barrier = 0;
  int count = 0;
  By by = By::all;

  friend bool operator==(const SyncOp&, const SyncOp&) = default;
};
std::string_view name_of(SyncOp::Kind kind);
/// One line of text, such as `wait full K_s`.
std::string print(const SyncOp& op);

using SyncOps = std::vector<SyncOp>;

/// A ring between roles: of each slot two barriers (PTX ISA, mbarrier), that it is full and that it is free.
struct SlotBarriers {
  std::string ring;
  int slots = 1;
  int first = 0;          // number of the barrier of its first full slot; those of free slots follow the full ones
  int full_arrivals = 1;  // that end a phase, beside the bytes of copies
  int free_arrivals = 1;
  friend bool operator==(const SlotBarriers&, const SlotBarriers&) = default;
};

class Synchronization {
 public:
  explicit Synchronization(const Kernel& kernel);

  /// Rings between roles in the order of their barriers, that of tile places last.
  const std::vector<SlotBarriers>& rings() const { return rings_; }
  const SlotBarriers* find_ring(std::string_view name) const;
  /// Of all rings: those of a slot are numbered from SlotBarriers::first on.
  int barrier_count() const;

  /// Before anything else, by all threads, and behind all.
  SyncOps at_start() const;
  SyncOps at_end() const;
  SyncOps at_start(const Role& role) const;
  SyncOps at_end(const Role& role) const;

  SyncOps before(const Stmt& stmt) const;
  /// Of an acquire with limits: only where there are rows beyond them.
  SyncOps after(const Stmt& stmt) const;
  SyncOps after(const If& branch) const;

  // The walk over the tiles of a persistent kernel. Who deals them out waits for a free place, writes it, and passes it
  // on; who takes them waits for a place in front of the first tile and at the end of each, and gives it back where its
  // loops have ended.
  SyncOps before_dealing() const;
  SyncOps after_dealing() const;
  SyncOps before_taking() const;
  SyncOps after_taking(bool one_thread) const;

  bool has_roles() const { return kernel_.producers > 0; }
  bool has_wgmma() const { return has_wgmma_; }
  /// Tiles from which TMA stores, and those that the blocks of a cluster fill for each other.
  const std::set<TileName>& stored_by_tma() const { return stored_by_tma_; }
  const std::set<TileName>& filled_by_cluster() const { return filled_by_cluster_; }

 private:
  SyncOps of_reserve(const Reserve& reserve) const;
  SyncOps of_acquire(const Acquire& acquire) const;
  SyncOps of_release(const Release& release) const;
  SyncOps behind_copy(const Copy& copy) const;

  const Kernel& kernel_;
  bool has_wgmma_ = false;
  std::vector<SlotBarriers> rings_;
  std::set<TileName> stored_by_tma_, filled_by_cluster_, copied_asynchronously_;
  /// Of each token what waits for it; nothing where it ends with its statement.
  std::map<std::string, std::optional<SyncOp::Kind>> waits_;
};

/// Copies ahead of a ring stand under one condition and are committed behind it, whether or not they ran: so every slot
/// has a group.
bool commits_copies(const Block& block);

/// Sets Await::open.
void number_groups(Block& block);
/// Sets Release::apart where a loop that need not run stands between acquire and release.
void mark_apart(Kernel& kernel);

}  // namespace astatide::tile
