#include "compiler/passes/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "compiler/support/round_up.h"
#include "compiler/tile/liveness.h"
#include "compiler/tile/parameters.h"
#include "compiler/tile/synchronization.h"

namespace astatide {
namespace {

using tile::Kernel;
using tile::Mem;

constexpr std::int64_t kAlignment = 128, kPanelAlignment = 1024;

std::string describe(const Kernel& kernel, const Mem& mem) {
  std::string extents;
  for (const tile::Dim& dim : mem.dims) extents += (extents.empty() ? "" : "x") + std::to_string(dim.extent);
  const std::string teams = kernel.teams > 1 ? fmt::format("{} teams of ", kernel.teams) : "";
  const std::string slots = mem.ring > 1 ? fmt::format("{} slots of ", mem.ring) : "";
  return fmt::format("{} {}{}{} {} = {}", mem.name, teams, slots, extents, name_of(mem.type),
                     shared_bytes_of(mem) * kernel.teams);
}

/// What to try: fewer slots, or, where a tile is as long as a bound, the largest bound that fits.
std::vector<std::string> suggestions(const tile::Program& program, const Kernel& kernel, std::int64_t excess) {
  std::vector<std::string> notes;
  for (const Mem& mem : kernel.mems) {
    if (mem.space != Space::shared) continue;
    const std::int64_t slot = kernel.teams * shared_bytes_of(mem) / mem.ring;
    const std::int64_t fewer = mem.ring - (excess + slot - 1) / slot;
    if (mem.ring > 1 && fewer >= 1) notes.push_back(fmt::format("{}: ring_buffer: {} would fit", mem.name, fewer));
    for (const auto& [extent, bound] : program.bounds) {
      const tile::Dim& last = mem.dims.back();
      if (last.extent < bound || mem.dims.size() != 2) continue;
      const std::int64_t column = static_cast<std::int64_t>(mem.dims[0].extent) * size_in_bytes(mem.type);
      const std::int64_t largest = last.extent - (excess + column - 1) / column - kAlignment / column;
      // Down to a multiple of 8, so that the padding of rows stays within it.
      if (largest / 8 * 8 > 0)
        notes.push_back(fmt::format("the largest {} that fits is {}; or make the tile's {} smaller", extent,
                                    largest / 8 * 8, mem.dims[0].axis));
      else
        notes.push_back(fmt::format("no {} fits with {} rows a tile; make the tile's {} smaller", extent,
                                    mem.dims[0].extent, mem.dims[0].axis));
    }
  }
  if (notes.empty()) notes.emplace_back("smaller tiles would fit");
  return notes;
}

/// Where teams leave their states: in the room of their tiles, which have been read by then. Gives the bytes of all.
std::int64_t place_teams(tile::Program& program, Kernel& kernel, std::int64_t tiles) {
  std::int64_t offset = 0;
  for (const std::string& name : tile::block_tensors_of(program, kernel))
    for (tile::Tensor& tensor : program.tensors) {
      if (tensor.name != name) continue;
      tensor.offset = offset;
      offset = round_up(offset + tile::elements_of_team(tensor) * size_in_bytes(tensor.type), kAlignment);
    }
  const bool panels = std::any_of(kernel.mems.begin(), kernel.mems.end(),
                                  [](const Mem& mem) { return std::holds_alternative<tile::Panels>(mem.layout); });
  kernel.team_bytes = round_up(std::max(offset, tiles), panels ? kPanelAlignment : kAlignment);
  return kernel.team_bytes * kernel.teams;
}

void place_tiles(tile::Program& program, Kernel& kernel, const Target& target) {
  std::int64_t offset = 0;
  std::string buffers;
  for (Mem& mem : kernel.mems) {
    if (mem.space != Space::shared) continue;
    // Swizzled panels repeat every 1024 bytes of address.
    if (std::holds_alternative<tile::Panels>(mem.layout)) offset = round_up(offset, kPanelAlignment);
    mem.offset = offset;
    offset = round_up(offset + shared_bytes_of(mem), kAlignment);
    buffers += (buffers.empty() ? "" : "; ") + describe(kernel, mem);
  }
  if (kernel.teams > 1) offset = place_teams(program, kernel, offset);
  if (kernel.producers > 0) {
    // Of each slot two barriers of 8 bytes; behind them the slots of the places of the next tile along its axes.
    kernel.barriers = offset;
    offset += std::int64_t{8} * tile::Synchronization(kernel).barrier_count();
    if (kernel.persistent) offset += tile::kTileSlots * static_cast<std::int64_t>(kernel.tile_numbers() * sizeof(int));
  }
  kernel.shared_bytes = offset;
  if (offset <= target.shared_memory_per_block) return;
  std::vector<std::string> notes{buffers};
  for (std::string& note : suggestions(program, kernel, offset - target.shared_memory_per_block))
    notes.push_back(std::move(note));
  throw UserError(
      fmt::format("tiles of kernel {} need {} bytes of {}, {} has {}", kernel.name, offset,
                  target.is_cuda() ? "shared memory" : "workspace", target.name, target.shared_memory_per_block),
      std::move(notes));
}

/// Registers of a thread that a fragment takes.
int registers_of(const Mem& mem);

/// The fragments that are live at once and take the most registers.
std::pair<int, std::set<tile::TileName>> most_registers(const Kernel& kernel) {
  std::pair<int, std::set<tile::TileName>> most;
  tile::visit_live_tiles(kernel, [&](const std::set<tile::TileName>& live) {
    int registers = 0;
    for (const tile::TileName& name : live) registers += registers_of(*kernel.find(name));
    if (registers > most.first) most = {registers, live};
  });
  return most;
}

void check_registers(const Kernel& kernel, const Target& target) {
  const auto [registers, live] = most_registers(kernel);
  if (registers <= target.registers_per_thread) return;
  std::string buffers;
  for (const tile::TileName& name : live) {
    const Mem& mem = *kernel.find(name);
    if (mem.space != Space::register_file || mem.dims.size() < 2) continue;
    buffers += fmt::format("{}{} {}x{} = {}", buffers.empty() ? "" : "; ", mem.name, mem.dims[0].extent,
                           mem.dims[1].extent, registers_of(mem));
  }
  throw UserError(
      fmt::format("fragments of kernel {} need {} registers a thread, {} has {}", kernel.name, registers, target.name,
                  target.registers_per_thread),
      {fmt::format("over {} threads {}", kernel.threads(), buffers), "more threads or smaller tiles would fit"});
}

int held(int extent, int threads, int vector) { return (extent + threads * vector - 1) / (threads * vector) * vector; }

int registers_of(const Mem& mem) {
  if (mem.space != Space::register_file) return 0;
  if (const auto* grid = std::get_if<tile::ThreadGrid>(&mem.layout))
    return size_in_bytes(mem.type) * held(mem.dims[0].extent, grid->rows, grid->row_vector) *
           held(mem.dims[1].extent, grid->columns, grid->column_vector) / 4;
  if (const auto* rows = std::get_if<tile::RowsOf>(&mem.layout))
    return held(mem.dims[0].extent, rows->grid.rows, rows->grid.row_vector);
  return 0;
}

/// Warps of other blocks work while one waits for its products, and a compiler that knows how many blocks there are to
/// be keeps to their share of the registers. Warps of wgmma have their own ways to wait.
int plan_blocks(const Kernel& kernel, const Target& target) {
  bool by_warps = false;
  tile::walk(kernel.body, [&](const tile::Stmt& stmt) {
    const auto* mma = std::get_if<tile::Mma>(&stmt.node);
    by_warps = by_warps || (mma && mma->by == tile::Family::mma_sync);
  });
  if (!by_warps || kernel.producers > 0) return 1;
  const std::int64_t blocks =
      std::min({blocks_by_registers(most_registers(kernel).first, kernel.block_threads(), target),
                target.shared_memory_per_sm / (kernel.shared_bytes + kReservedSharedBytes),
                std::int64_t{target.threads_per_sm / kernel.block_threads()}, std::int64_t{target.blocks_per_sm}});
  return static_cast<int>(std::max<std::int64_t>(1, blocks));
}

}  // namespace

std::int64_t shared_bytes_of(const Mem& mem) { return mem.byte_count(); }

std::int64_t blocks_by_registers(int fragments, int threads, const Target& target) {
  return target.registers_per_sm / (round_up<std::int64_t>(fragments + kOtherRegisters, kRegisterUnit) * threads);
}

int fragment_registers(const Kernel& kernel) { return most_registers(kernel).first; }

tile::Program plan_memory(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    place_tiles(out, kernel, target);
    if (!target.is_cuda()) continue;
    tile::number_groups(kernel.body);
    tile::mark_apart(kernel);
    check_registers(kernel, target);
    kernel.blocks = plan_blocks(kernel, target);
  }
  return out;
}

}  // namespace astatide
