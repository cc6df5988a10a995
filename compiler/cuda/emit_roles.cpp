// Producers and consumers: warpgroups of one block that share the slots of rings and nothing else. Of each such slot
// two barriers (PTX ISA, mbarrier) say that it is full, which the bytes of a copy complete, and that it is free, at
// which each warp of the consumers arrives. A ring's slot and the phase of its barriers go round together.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/contains.h"
#include "compiler/tile/parameters.h"

namespace astatide::cuda {

using tile::Mem;

std::string KernelEmitter::barrier_text(int first, const std::string& slot) const {
  return slot.empty() ? fmt::format("{} + {}", claimed("barriers"), first)
                      : fmt::format("{} + {} + {}", claimed("barriers"), first, slot);
}

std::string KernelEmitter::barrier(const Mem& ring, bool full, const std::string& slot) const {
  return barrier_text(barriers_before(&ring) + (full ? 0 : ring.ring), slot);
}

int KernelEmitter::barriers_before(const Mem* ring) const {
  int count = 0;
  for (const Mem* mem : rings_between_roles_) {
    if (mem == ring) break;
    count += 2 * mem->ring;
  }
  return count;
}

std::string KernelEmitter::tile_barrier(bool full, const std::string& slot) const {
  return barrier_text(barriers_before(nullptr) + (full ? 0 : tile::kTileSlots), slot);
}

void KernelEmitter::emit_barriers(SourceText& out) const {
  const std::string slot = fresh("slot");
  const int warps = kernel_.threads() / 32, blocks = kernel_.cluster_blocks();
  const auto init = [&](int slots, const std::string& full, const std::string& free, const std::string& name,
                        int readers) {
    out.open_unrolled(slot, slots);
    out.line(fmt::format("barrier_init({}, 1);  // {} is full", full, name));
    out.line(fmt::format("barrier_init({}, {});  // is free", free, readers));
    out.close();
  };
  out.open(fmt::format("if ({} == 0)", thread_));
  for (const Mem* ring : rings_between_roles_)
    init(ring->ring, barrier(*ring, true, slot), barrier(*ring, false, slot), ring->name,
         filled_by_cluster_.contains(ring->name) ? blocks * warps : warps);
  if (kernel_.persistent)
    // The producers of a cluster take places, too.
    init(tile::kTileSlots, tile_barrier(true, slot), tile_barrier(false, slot), claimed("next_tiles"),
         kernel_.cluster ? blocks * (warps + 1) : warps);
  out.line("barrier_init_fence();");
  out.close();
  out.line(kernel_.cluster ? "cluster_sync();" : "__syncthreads();");
}

// A persistent block begins with the tile of its own number. The producer finds its place along the axes, which takes
// divisions, and passes it on through a ring of its own; then it draws the next one and copies for this one. A place of
// -1 ends the walk. In a cluster another thread of the first block does this for all, with numbers of clusters: it is
// ahead of the producers, which take places as the consumers do.

std::string KernelEmitter::place_of_tile(std::size_t axis) const {
  return fmt::format("({} + {} * {})[{}]", claimed("next_tiles"), claimed("tile_slot"), kernel_.tiles.size(), axis);
}

void KernelEmitter::emit_dealt_tiles(const tile::Block& body) {
  const std::string slot = claimed("tile_slot"), phase = claimed("tile_phase"), tile = claimed("tile"),
                    tiles = claimed("tiles"), counter = claimed("tile_counter");
  const std::string drawn = kernel_.cluster ? fmt::format("{}, {}", counter, kernel_.cluster->blocks) : counter;
  out_.line(fmt::format("const int {} = {};", tiles, counts_text(0)));
  out_.line(fmt::format("int {} = 0, {} = 1;", slot, phase));
  out_.open(fmt::format("for (int {} = {};;)", tile, first_step()));
  emit_tile_axes(out_, fmt::format("min({}, {} - 1)", tile, tiles));
  emit_tile_wait(false);
  const auto place = [&](std::size_t axis, const std::string& of_first) {
    return axis == 0 ? fmt::format("{} < {} ? {} : -1", tile, tiles, of_first) : kernel_.tiles[axis].var;
  };
  if (kernel_.cluster) {
    emit_published_places(place);
  } else {
    for (std::size_t i = 0; i < kernel_.tiles.size(); ++i)
      out_.line(fmt::format("{} = {};", place_of_tile(i), place(i, kernel_.tiles[0].var)));
    out_.line(fmt::format("barrier_arrive({});", tile_barrier(true, slot)));
  }
  next_slot(slot, phase, tile::kTileSlots);
  out_.line(fmt::format("if ({} >= {}) break;", tile, tiles));
  out_.line(fmt::format("{} = draw_tile({});", tile, drawn));
  emit_block(body);
  out_.close();
  out_.line(fmt::format("leave_tiles({});", drawn));
}

void KernelEmitter::emit_tile_wait(bool full) {
  out_.line(fmt::format("{}({}, {});", kernel_.cluster ? "barrier_acquire" : "barrier_wait",
                        tile_barrier(full, claimed("tile_slot")), claimed("tile_phase")));
}

// Places that the loops don't read are taken where the loops have ended: they need no registers before. There the next
// tile's place along the first axis is read as well, so that what ends this tile hides how long that takes.
void KernelEmitter::emit_taken_tiles(const tile::Block& body, bool one_thread) {
  const std::string slot = claimed("tile_slot"), phase = claimed("tile_phase"), next = fresh("next");
  // Through a shuffle the compiler sees that the number is the same for all lanes.
  const auto number = [&](const std::string& read) {
    return one_thread ? read : fmt::format("__shfl_sync(0xffffffffu, {}, 0)", read);
  };
  out_.line(fmt::format("int {} = 0, {} = 0;", slot, phase));
  emit_tile_wait(true);
  out_.line(fmt::format("int {} = {};", next, place_of_tile(0)));
  out_.open("for (;;)");
  // A vote: what leaves a loop on a shuffled number makes all that the loop carries differ between lanes, for ptxas.
  const std::string last = next + " < 0";
  out_.line(fmt::format("if ({}) break;", one_thread ? last : fmt::format("__any_sync(0xffffffffu, {})", last)));
  // It sees that of no number that the loop carries, so the shuffle stands here.
  out_.line(
      fmt::format("const int {} = {};", kernel_.cluster ? claimed("tile_place") : kernel_.tiles[0].var, number(next)));
  const auto [loops, rest] = parted_behind_loops(body);
  const tile::Block outside = outside_roles();
  const auto read_early = [&, &loops = loops](std::size_t axis) {
    const auto reads = [&](const tile::Stmt& stmt) {
      return contains(tile::effects_of(stmt).reads, kernel_.tiles[axis].var);
    };
    return one_thread || std::any_of(outside.begin(), outside.end(), reads) ||
           std::any_of(loops.begin(), loops.end(), reads);
  };
  const auto take = [&](bool early) {
    for (std::size_t i = 1; i < kernel_.tiles.size(); ++i)
      if (read_early(i) == early)
        out_.line(fmt::format("const int {} = {};", kernel_.tiles[i].var, number(place_of_tile(i))));
  };
  take(true);
  if (kernel_.cluster) emit_tile_of_place(out_, !one_thread);
  emit_block(outside);
  emit_block(loops);
  take(false);
  out_.line(fmt::format("{}{}{});", one_thread ? "" : fmt::format("if ({} % 32 == 0) ", thread_),
                        kernel_.cluster ? "barrier_release_at(0, " : "barrier_arrive(", tile_barrier(false, slot)));
  next_slot(slot, phase, tile::kTileSlots);
  emit_tile_wait(true);
  out_.line(fmt::format("{} = {};", next, place_of_tile(0)));
  emit_block(rest);
  out_.close();
}

tile::Block KernelEmitter::outside_roles() const {
  tile::Block out = kernel_.body;
  std::erase_if(out, [](const tile::Stmt& stmt) { return std::holds_alternative<tile::Role>(stmt.node); });
  return out;
}

void KernelEmitter::next_slot(const std::string& slot, const std::string& phase, int slots) {
  if (slots == 1)
    out_.line(fmt::format("{} ^= 1;", phase));
  else
    out_.line(fmt::format("if (++{0} == {1}) {0} = 0, {2} ^= 1;", slot, slots, phase));
}

void KernelEmitter::next_slot(const Mem& ring, bool write) {
  const std::string& slot = claimed(ring.name + (write ? "_write" : "_read"));
  const std::string& phase = claimed(ring.name + (write ? "_write_phase" : "_read_phase"));
  next_slot(slot, phase, ring.ring);
}

// Turns go round by named barriers (PTX ISA, bar), one a warpgroup, at which it waits for the one before it. Each
// warpgroup takes and passes equally many, whatever its warps vote for: turns stand under conditions of the block
// alone. In front of all, the last passes to the first; behind all, the first takes what the last has passed, so that
// every barrier ends as it began.

void KernelEmitter::emit(const tile::Turn& turn) {
  out_.line(fmt::format("{}_turn<{}>({});", turn.what == tile::Turn::Do::take ? "take" : "pass", kernel_.warpgroups(),
                        claimed("warpgroup")));
}

void KernelEmitter::emit_turn(int warpgroup, const char* what, const char* why) {
  out_.line(fmt::format("if ({0} == {1}) {2}_turn<{3}>({0});  // {4}", claimed("warpgroup"), warpgroup, what,
                        kernel_.warpgroups(), why));
}

void KernelEmitter::emit(const tile::Role& role) {
  const bool producer = role.name == "producer";
  out_.open(producer ? fmt::format("if ({} >= {})", thread_, kernel_.threads()) : "else");
  if (role.registers > 0) out_.line(fmt::format("{}_registers<{}>();", producer ? "give" : "take", role.registers));
  if (producer) out_.open(fmt::format("if ({} == {})", thread_, kernel_.threads()));
  for (const Mem* ring : rings_between_roles_)
    out_.line(fmt::format("int {} = 0, {} = {};  // slot, phase", claimed(ring->name + (producer ? "_write" : "_read")),
                          claimed(ring->name + (producer ? "_write_phase" : "_read_phase")), producer ? 1 : 0));
  if (!producer) {
    SourceText storage;
    storage.indent = out_.indent;
    emit_registers(storage);
    out_.append(storage);
  }
  const bool turns = tile::has_turns(role.body);
  if (turns) emit_turn(role.count - 1, "pass", "the first begins");
  if (!kernel_.persistent) {
    emit_block(role.body);
  } else if (producer && !kernel_.cluster) {
    tile::Block body = outside_roles();
    body.insert(body.end(), role.body.begin(), role.body.end());
    emit_dealt_tiles(body);
  } else {
    emit_taken_tiles(role.body, producer);
  }
  // A block's shared memory has to last until TMA has read it.
  if (!producer && !stored_by_tma_.empty()) emit_by_storing_thread("tma_wait_until_read()");
  if (turns) emit_turn(0, "take", "the last pass is waited for, too");
  if (producer) out_.close();
  if (producer && kernel_.cluster && kernel_.persistent) {
    out_.open(fmt::format("else if ({} == {} && {} == 0)", thread_, kernel_.threads() + 32, claimed("cluster_rank")));
    emit_dealt_tiles({});
    out_.close();
  }
  out_.close();
}

void KernelEmitter::emit(const tile::Reserve& reserve) {
  const Mem& ring = mem(reserve.tile);
  if (stored_by_tma_.contains(ring.name)) return emit_reserve_stored();
  if (reserve.ahead) emit_tma_prefetch(*reserve.ahead, ring);
  out_.line(fmt::format("barrier_wait({}, {});", barrier(ring, false, claimed(ring.name + "_write")),
                        claimed(ring.name + "_write_phase")));
}

void KernelEmitter::emit_role_acquire(const tile::Acquire& acquire) {
  const Mem& ring = mem(acquire.tile);
  if (stored_by_tma_.contains(ring.name)) return emit_acquire_stored();
  out_.line(fmt::format("barrier_wait({}, {});", barrier(ring, true, claimed(ring.name + "_read")),
                        claimed(ring.name + "_read_phase")));
  for (const tile::Coordinate& rows : acquire.at) emit_rows_beyond(rows, ring);
}

void KernelEmitter::emit_role_release(const Mem& ring) {
  if (stored_by_tma_.contains(ring.name)) return;  // the reserve in front of its next copy waits for that
  const std::string free = barrier(ring, false, claimed(ring.name + "_read"));
  if (filled_by_cluster_.contains(ring.name))
    out_.line(
        fmt::format("if ({0} % 32 < {1}) barrier_arrive_at({0} % 32, {2});", thread_, kernel_.cluster_blocks(), free));
  else
    out_.line(fmt::format("if ({} % 32 == 0) barrier_arrive({});", thread_, free));
  next_slot(ring, false);
}

}  // namespace astatide::cuda
