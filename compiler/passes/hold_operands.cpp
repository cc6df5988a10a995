#include "compiler/passes/hold_operands.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/liveness.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Kernel;
using tile::Mem;
using tile::Mma;
using tile::Stmt;
using tile::TileName;

/// The left operand of a product of tensor cores that reads it nowhere else.
const TileName* left_of(const Stmt& stmt) {
  const auto* mma = std::get_if<Mma>(&stmt.node);
  return mma && tile::on_tensor_cores(*mma) && mma->lhs != mma->rhs ? std::get_if<TileName>(&mma->lhs) : nullptr;
}

/// Statements of rings take slots, they read no tile.
bool reads_tile(const Stmt& stmt, const TileName& name) {
  const bool of_ring = std::holds_alternative<tile::Reserve>(stmt.node) ||
                       std::holds_alternative<tile::Acquire>(stmt.node) ||
                       std::holds_alternative<tile::Release>(stmt.node);
  return !of_ring && contains(tile::effects_of(stmt).reads, name);
}
bool writes_tile(const Stmt& stmt, const TileName& name) { return contains(tile::effects_of(stmt).writes, name); }

bool by_mma_sync(const Stmt& stmt) {
  const auto* mma = std::get_if<Mma>(&stmt.node);
  return mma && mma->by == tile::Family::mma_sync;
}

/// Of a thread, before layouts are known: tensor cores spread a tile evenly, and give its rows' numbers to each column
/// of threads.
int even_registers(const Mem& mem, const Kernel& kernel) {
  if (mem.space != Space::register_file) return 0;
  if (mem.dims.size() == 1) return mem.dims[0].extent / kernel.thread_rows;
  return static_cast<int>(mem.element_count() * size_in_bytes(mem.type) / (4 * kernel.threads()));
}

int live_registers(const Kernel& kernel) {
  int most = 0;
  tile::visit_live_tiles(kernel, [&](const std::set<TileName>& live) {
    int registers = 0;
    for (const TileName& name : live) registers += even_registers(*kernel.find(name), kernel);
    most = std::max(most, registers);
  });
  return most;
}

/// Whether products read the tile as their left operand and nothing else does, in loops that do not change it.
bool stays(const Kernel& kernel, const TileName& name) {
  bool read = false, other = false;
  for (const Stmt& outer : tile::team_body(kernel))
    tile::walk({outer}, [&](const Stmt& stmt) {
      if (tile::nested_block(stmt)) return;
      const TileName* left = left_of(stmt);
      const bool in_loop = tile::nested_block(outer);
      const bool product = left && *left == name && by_mma_sync(stmt) && in_loop;
      read = read || product;
      other = other || (reads_tile(stmt, name) && !product) || (writes_tile(stmt, name) && in_loop);
    });
  return read && !other;
}

/// The tile in registers that an operand in shared memory becomes.
Mem in_registers(const tile::Program& program, const Kernel& kernel, const Mem& operand) {
  Mem held = operand;
  held.name = names_in_kernel(program, kernel).fresh(operand.name + "_held");
  held.space = Space::register_file;
  held.ring = 1;
  held.align.clear();
  return held;
}

bool fits(const Kernel& kernel, const Mem& held, const Target& target) {
  const int before = live_registers(kernel), after = before + even_registers(held, kernel);
  const auto blocks = [&](int registers) { return blocks_by_registers(registers, kernel.block_threads(), target); };
  return after + kOtherRegisters <= target.registers_per_thread && blocks(after) >= blocks(before);
}

/// Of a block that fills or acquires `from` and then reads it as a left operand alone. A slot is released where the
/// registers have it.
Block held_in(const Block& block, const TileName& from, const TileName& held) {
  tile::Copy copy;
  copy.dst = held;
  copy.src = from;
  copy.via = tile::Via::ldmatrix;
  Block out;
  bool copied = false, released = false;
  for (const Stmt& stmt : block) {
    const auto* release = std::get_if<tile::Release>(&stmt.node);
    released = released || (release && release->tile == from);
  }
  for (const Stmt& stmt : block) {
    const auto* release = std::get_if<tile::Release>(&stmt.node);
    if (release && release->tile == from) continue;
    if (!copied && reads_tile(stmt, from)) {
      out.push_back({copy});
      if (released) out.push_back({tile::Release{from}});
      copied = true;
    }
    out.push_back(stmt);
  }
  return tile::transform_blocks(out, [&](Block inner) {
    for (Stmt& stmt : inner)
      if (const TileName* left = left_of(stmt); left && *left == from) std::get<Mma>(stmt.node).lhs = held;
    return inner;
  });
}

/// Whether a statement of the block itself makes the tile one to read.
bool provides(const Block& block, const TileName& name, bool acquired) {
  return std::any_of(block.begin(), block.end(), [&](const Stmt& stmt) {
    const auto* acquire = std::get_if<tile::Acquire>(&stmt.node);
    return acquired ? acquire && acquire->tile == name : !tile::nested_block(stmt) && writes_tile(stmt, name);
  });
}

/// As a schedule asks.
void hold(const tile::Program& program, Kernel& kernel, const TileName& name) {
  bool acquired = false, other = false;
  tile::walk(kernel.body, [&](const Stmt& stmt) {
    const auto* acquire = std::get_if<tile::Acquire>(&stmt.node);
    acquired = acquired || (acquire && acquire->tile == name);
    const TileName* left = left_of(stmt);
    other = other || (!tile::nested_block(stmt) && reads_tile(stmt, name) && !(left && *left == name));
  });
  if (other)
    throw UserError("store_in: [shared, register] of " + name +
                        ": a statement other than a product of tensor cores with it on the left reads it, too",
                    {"store_in: shared"});
  const Mem held = in_registers(program, kernel, *kernel.find(name));
  kernel.body = tile::transform_blocks(kernel.body, [&](const Block& block) {
    return provides(block, name, acquired) ? held_in(block, name, held.name) : block;
  });
  kernel.mems.push_back(held);
}

}  // namespace

tile::Program hold_operands(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    for (const TileName& name : std::exchange(kernel.holds, {})) hold(program, kernel, name);
    if (kernel.threads() <= 0 || kernel.producers > 0) continue;
    const std::vector<Mem> mems = kernel.mems;
    for (const Mem& mem : mems) {
      if (mem.space != Space::shared || mem.ring != 1 || mem.dims.size() != 2 || !stays(kernel, mem.name)) continue;
      const Mem held = in_registers(program, kernel, mem);
      if (!fits(kernel, held, target)) continue;
      tile::team_body(kernel) = held_in(tile::team_body(kernel), mem.name, held.name);
      kernel.mems.push_back(held);
    }
  }
  return out;
}

}  // namespace astatide
