// Producers and consumers: warpgroups of one block that share the slots of rings and nothing else. Of each slot two
// barriers (PTX ISA, mbarrier) say that it is full, which the bytes of a copy complete, and that it is free, at which
// each warp of the consumers arrives. A ring's slot and the phase of its barriers go round together.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

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
  for (const Mem& mem : kernel_.mems) {
    if (&mem == ring) break;
    if (mem.space == Space::shared) count += 2 * mem.ring;
  }
  return count;
}

std::string KernelEmitter::tile_barrier(bool full, const std::string& slot) const {
  return barrier_text(barriers_before(nullptr) + (full ? 0 : tile::kTileSlots), slot);
}

void KernelEmitter::emit_barriers(SourceText& out) const {
  const std::string slot = fresh("slot");
  const auto init = [&](int slots, const std::string& full, const std::string& free, const std::string& name) {
    out.open_unrolled(slot, slots);
    out.line(fmt::format("barrier_init({}, 1);  // {} is full", full, name));
    out.line(fmt::format("barrier_init({}, {});  // is free", free, kernel_.threads() / 32));
    out.close();
  };
  out.open(fmt::format("if ({} == 0)", thread_));
  for (const Mem& mem : kernel_.mems)
    if (mem.space == Space::shared) init(mem.ring, barrier(mem, true, slot), barrier(mem, false, slot), mem.name);
  if (kernel_.persistent)
    init(tile::kTileSlots, tile_barrier(true, slot), tile_barrier(false, slot), claimed("next_tiles"));
  out.line("barrier_init_fence();");
  out.close();
  out.line("__syncthreads();");
}

// A persistent block begins with the tile of its own number. The producer draws the next one while it copies for this
// one, and passes it on through a ring of its own.

void KernelEmitter::open_tiles(bool producer) {
  out_.line(fmt::format("int {} = 0, {} = {};", claimed("tile_slot"), claimed("tile_phase"), producer ? 1 : 0));
  out_.open(fmt::format("for (int {0} = blockIdx.x; {0} < {1};)", claimed("tile"), claimed("tiles")));
  if (producer) out_.line(fmt::format("const int {} = draw_tile({});", claimed("next_tile"), claimed("tile_counter")));
  emit_tile_axes(out_, claimed("tile"));
  for (const tile::Stmt& stmt : kernel_.body)
    if (!std::holds_alternative<tile::Role>(stmt.node)) emit_statement(stmt);
}

void KernelEmitter::close_tiles(bool producer) {
  const std::string slot = claimed("tile_slot"), phase = claimed("tile_phase");
  const std::string place = fmt::format("{}[{}]", claimed("next_tiles"), slot);
  out_.line(fmt::format("barrier_wait({}, {});", tile_barrier(!producer, slot), phase));
  if (producer) {
    out_.line(fmt::format("{} = {};", place, claimed("next_tile")));
    out_.line(fmt::format("barrier_arrive({});", tile_barrier(true, slot)));
    out_.line(fmt::format("{} = {};", claimed("tile"), claimed("next_tile")));
  } else {
    // Through a shuffle the compiler sees that the number is the same for all lanes.
    out_.line(fmt::format("{} = __shfl_sync(0xffffffffu, {}, 0);", claimed("tile"), place));
    out_.line(fmt::format("if ({} % 32 == 0) barrier_arrive({});", thread_, tile_barrier(false, slot)));
  }
  next_slot(slot, phase, tile::kTileSlots);
  out_.close();
  if (producer) out_.line(fmt::format("leave_tiles({});", claimed("tile_counter")));
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

void KernelEmitter::emit(const tile::Role& role) {
  const bool producer = role.name == "producer";
  out_.open(producer ? fmt::format("if ({} >= {})", thread_, kernel_.threads()) : "else");
  if (role.registers > 0) out_.line(fmt::format("{}_registers<{}>();", producer ? "give" : "take", role.registers));
  if (producer) out_.open(fmt::format("if ({} == {})", thread_, kernel_.threads()));
  for (const Mem& mem : kernel_.mems)
    if (mem.space == Space::shared)
      out_.line(fmt::format("int {} = 0, {} = {};  // slot, phase", claimed(mem.name + (producer ? "_write" : "_read")),
                            claimed(mem.name + (producer ? "_write_phase" : "_read_phase")), producer ? 1 : 0));
  if (!producer) {
    SourceText storage;
    storage.indent = out_.indent;
    emit_registers(storage);
    out_.append(storage);
  }
  if (kernel_.persistent) open_tiles(producer);
  emit_block(role.body);
  if (kernel_.persistent) close_tiles(producer);
  if (producer) out_.close();
  out_.close();
}

void KernelEmitter::emit(const tile::Reserve& reserve) {
  const Mem& ring = mem(reserve.tile);
  out_.line(fmt::format("barrier_wait({}, {});", barrier(ring, false, claimed(ring.name + "_write")),
                        claimed(ring.name + "_write_phase")));
}

void KernelEmitter::emit_role_acquire(const Mem& ring) {
  out_.line(fmt::format("barrier_wait({}, {});", barrier(ring, true, claimed(ring.name + "_read")),
                        claimed(ring.name + "_read_phase")));
}

void KernelEmitter::emit_role_release(const Mem& ring) {
  out_.line(fmt::format("if ({} % 32 == 0) barrier_arrive({});", thread_,
                        barrier(ring, false, claimed(ring.name + "_read"))));
  next_slot(ring, false);
}

void KernelEmitter::emit_tma(const tile::View& view, const Mem& dst) {
  const auto form = tile::tiled_view(view, dst);
  if (!form) throw InternalError("a tile of " + view.tensor + " has no form that TMA copies");
  constexpr int kPanel = 64;
  const int panels = tile::panel_columns(dst) / kPanel, rows = dst.dims[0].extent;
  const std::string full = barrier(dst, true, claimed(dst.name + "_write"));
  // The map's dimensions are the columns, the rows, then the others, innermost first.
  std::string others;
  for (std::size_t dim = view.indices.size(); dim-- > 0;)
    if (static_cast<int>(dim) != form->row_dim && static_cast<int>(dim) != form->column_dim)
      others += fmt::format(", static_cast<int>({})", integer_text(view.indices[dim], scope()));
  std::string row = "0", column = "0";
  for (const tile::Coordinate& coordinate : view.at) {
    if (coordinate.axis == dst.dims[0].axis) row = integer_text(coordinate.origin, scope());
    if (coordinate.axis == dst.dims[1].axis) column = integer_text(coordinate.origin, scope());
  }
  out_.line(fmt::format("barrier_expect({}, {});", full, panels * rows * kPanel * size_in_bytes(dst.type)));
  for (int panel = 0; panel < panels; ++panel) {
    const std::string first =
        column == "0" ? std::to_string(panel * kPanel) : fmt::format("{} + {}", column, panel * kPanel);
    out_.line(fmt::format("tma_load({} + {}, &{}, {}, {}, {}{});", base(dst, true), panel * rows * kPanel,
                          claimed(view.tensor + "_map"), full, first, row, others));
  }
  next_slot(dst, true);
}

}  // namespace astatide::cuda
