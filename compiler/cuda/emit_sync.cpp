// What threads wait for and tell each other, as instructions: tile::Synchronization says where they stand.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cuda {

using tile::SyncOp;
using Kind = tile::SyncOp::Kind;

void KernelEmitter::emit(const tile::SyncOps& ops) {
  for (const SyncOp& op : ops) emit(op);
}

void KernelEmitter::emit(const SyncOp& op, const std::string& comment) {
  const std::string by = by_text(op), behind = comment.empty() ? "" : "  // " + comment;
  out_.line((by.empty() ? "" : "if (" + by + ") ") + instruction_text(op) + behind);
}

std::string KernelEmitter::by_text(const SyncOp& op) const {
  switch (op.by) {
    case SyncOp::By::all:
      return "";
    case SyncOp::By::first_lane:
      // One lane for each block that it tells.
      return sync_.filled_by_cluster().contains(op.ring)
                 ? fmt::format("{} % 32 < {}", thread_, kernel_.cluster_blocks())
                 : fmt::format("{} % 32 == 0", thread_);
    case SyncOp::By::storing:
      return fmt::format("{} % 128 == 0", thread_);
    case SyncOp::By::first_group:
      return fmt::format("{} == 0", claimed("warpgroup"));
    case SyncOp::By::last_group:
      return fmt::format("{} == {}", claimed("warpgroup"), kernel_.warpgroups() - 1);
  }
  throw InternalError("threads that no text names");
}

std::string KernelEmitter::slot_barrier(const std::string& ring, bool full, const std::string& slot) const {
  const tile::SlotBarriers* barriers = sync_.find_ring(ring);
  if (!barriers) throw InternalError(ring + " has no barriers");
  return fmt::format("{} + {} + {}", claimed("barriers"), barriers->first + (full ? 0 : barriers->slots), slot);
}

const std::string& KernelEmitter::slot_of(const SyncOp& op) const {
  return claimed(op.ring == tile::kTilePlaces ? "tile_slot" : op.ring + (op.writes ? "_write" : "_read"));
}

const std::string& KernelEmitter::phase_of(const SyncOp& op) const {
  return claimed(op.ring == tile::kTilePlaces ? "tile_phase" : op.ring + (op.writes ? "_write_phase" : "_read_phase"));
}

std::string KernelEmitter::next_slot_text(const SyncOp& op) const {
  const tile::SlotBarriers* ring = sync_.find_ring(op.ring);
  if (!ring) return fmt::format("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", slot_of(op), mem(op.ring).ring);
  if (ring->slots == 1) return fmt::format("{} ^= 1;", phase_of(op));
  return fmt::format("if (++{0} == {1}) {0} = 0, {2} ^= 1;", slot_of(op), ring->slots, phase_of(op));
}

std::string KernelEmitter::instruction_text(const SyncOp& op) const {
  const bool places = op.ring == tile::kTilePlaces, of_cluster = places && kernel_.cluster.has_value();
  switch (op.kind) {
    case Kind::fence_barriers:
      return "barrier_init_fence();";
    case Kind::wait:
      return fmt::format("{}({}, {});", of_cluster ? "barrier_acquire" : "barrier_wait",
                         slot_barrier(op.ring, !op.writes, slot_of(op)), phase_of(op));
    case Kind::expect:
      return fmt::format("barrier_expect({}, {});", slot_barrier(op.ring, true, slot_of(op)), op.count);
    case Kind::arrive: {
      const std::string barrier = slot_barrier(op.ring, op.writes, slot_of(op));
      if (sync_.filled_by_cluster().contains(op.ring))
        return fmt::format("barrier_arrive_at({} % 32, {});", thread_, barrier);
      return of_cluster ? fmt::format("barrier_release_at(0, {});", barrier)
                        : fmt::format("barrier_arrive({});", barrier);
    }
    case Kind::next_slot:
      return next_slot_text(op);
    case Kind::meet:
      // Others meet inside an arrival.
      if (op.barrier != tile::kBlockBarrier) throw InternalError("threads of a role meet at no instruction");
      return "__syncthreads();";
    case Kind::meet_warp:
      return "__syncwarp();";
    case Kind::meet_warpgroup:
      return fmt::format("warpgroup_sync({});", claimed("warpgroup"));
    case Kind::meet_team:
      return fmt::format("team_sync<{}>({} + {});", op.count, op.barrier, claimed("team"));
    case Kind::meet_cluster:
      return "cluster_sync();";
    case Kind::take_turn:
    case Kind::pass_turn:
      return fmt::format("{}_turn<{}>({});", op.kind == Kind::take_turn ? "take" : "pass", op.count,
                         claimed("warpgroup"));
    case Kind::fence_proxy:
      return "fence_async_proxy();";
    case Kind::fence_products:
      return "wgmma_fence();";
    case Kind::commit_products:
      return "wgmma_commit();";
    case Kind::wait_products:
      return fmt::format("wgmma_wait<{}>();", op.count);
    case Kind::commit_copies:
      return "cp_async_commit();";
    case Kind::wait_copies:
      return fmt::format("cp_async_wait<{}>();", op.count);
    case Kind::commit_stores:
      return "tma_store_commit();";
    case Kind::wait_stores:
      return "tma_wait_until_read();";
    case Kind::give_registers:
      return fmt::format("give_registers<{}>();", op.count);
    case Kind::take_registers:
      return fmt::format("take_registers<{}>();", op.count);
    case Kind::make_barriers:
      break;
  }
  throw InternalError(std::string(tile::name_of(op.kind)) + " is no single instruction");
}

// One thread makes the barriers; all see them once they have met.
void KernelEmitter::emit_start(SourceText& out) const {
  for (const SyncOp& op : sync_.at_start()) {
    if (op.kind == Kind::make_barriers) {
      const std::string slot = fresh("slot");
      out.open(fmt::format("if ({} == 0)", thread_));
      for (const tile::SlotBarriers& ring : sync_.rings()) {
        out.open_unrolled(slot, ring.slots);
        out.line(fmt::format("barrier_init({}, {});  // {} is full", slot_barrier(ring.ring, true, slot),
                             ring.full_arrivals, ring.ring == tile::kTilePlaces ? claimed(ring.ring) : ring.ring));
        out.line(
            fmt::format("barrier_init({}, {});  // is free", slot_barrier(ring.ring, false, slot), ring.free_arrivals));
        out.close();
      }
    } else {
      out.line(instruction_text(op));
      if (op.kind == Kind::fence_barriers) out.close();
    }
  }
}

void KernelEmitter::emit(const tile::Await& await) {
  for (const SyncOp& op : sync_.before({await})) emit(op, op.kind == Kind::wait_copies ? await.token : "");
  if (const auto product = wgmma_of_.find(await.token); product != wgmma_of_.end()) pin_product(*product->second);
}

void KernelEmitter::emit(const tile::Acquire& acquire) {
  for (const SyncOp& op : sync_.before({acquire}))
    emit(op, op.kind == Kind::wait_copies ? "a slot of " + acquire.tile : "");
  for (const tile::Coordinate& rows : acquire.at) emit_rows_beyond(rows, mem(acquire.tile), sync_.after({acquire}));
}

void KernelEmitter::emit(const tile::Arrive& arrive) {
  std::vector<std::string> indices;
  for (const Expr& index : arrive.indices) indices.push_back(integer_text(index, scope()));
  const SyncOp meet = sync_.before({arrive}).front();
  out_.line(fmt::format("const bool {} = arrives_last<{}, {}>({}, {}, {} == 0);", arrive.flag, meet.barrier, meet.count,
                        address(arrive.counters, indices), integer_text(arrive.of, scope()),
                        kernel_.teams > 1 ? "threadIdx.x" : thread_));
}

}  // namespace astatide::cuda
