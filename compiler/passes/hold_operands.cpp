#include "compiler/passes/hold_operands.h"

#include <algorithm>
#include <set>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/support/contains.h"
#include "compiler/tile/liveness.h"

namespace astatide {
namespace {

using tile::Kernel;
using tile::Mem;
using tile::Mma;
using tile::Stmt;
using tile::TileName;

const TileName* left_of(const Stmt& stmt) {
  const auto* mma = std::get_if<Mma>(&stmt.node);
  return mma && mma->by == tile::Family::mma_sync ? std::get_if<TileName>(&mma->lhs) : nullptr;
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
  for (const Stmt& outer : kernel.body)
    tile::walk({outer}, [&](const Stmt& stmt) {
      if (tile::nested_block(stmt)) return;
      const tile::Effects effects = tile::effects_of(stmt);
      const TileName* left = left_of(stmt);
      const bool product = left && *left == name && !(std::get<Mma>(stmt.node).rhs == tile::Operand(name));
      const bool in_loop = tile::nested_block(outer);
      read = read || (product && in_loop);
      other = other || (contains(effects.reads, name) && !(product && in_loop)) ||
              (contains(effects.writes, name) && in_loop);
    });
  return read && !other;
}

void hold(const tile::Program& program, Kernel& kernel, const Mem& operand, const Target& target) {
  Mem held = operand;
  held.space = Space::register_file;
  const int before = live_registers(kernel), after = before + even_registers(held, kernel);
  const auto blocks = [&](int registers) { return blocks_by_registers(registers, kernel.threads(), target); };
  if (after + kOtherRegisters > target.registers_per_thread || blocks(after) < blocks(before)) return;
  held.name = names_in_kernel(program, kernel).fresh(operand.name + "_held");
  held.align.clear();
  const TileName from = operand.name;
  const auto reads = [&](const Stmt& stmt) { return contains(tile::effects_of(stmt).reads, from); };
  const auto first = std::find_if(kernel.body.begin(), kernel.body.end(), reads);
  tile::Copy copy;
  copy.dst = held.name;
  copy.src = from;
  copy.via = tile::Via::ldmatrix;
  tile::Block body(kernel.body.begin(), first);
  body.push_back({copy});
  body.insert(body.end(), first, kernel.body.end());
  kernel.body = tile::transform_blocks(body, [&](tile::Block block) {
    for (Stmt& stmt : block)
      if (const TileName* left = left_of(stmt); left && *left == from) std::get<Mma>(stmt.node).lhs = held.name;
    return block;
  });
  kernel.mems.push_back(held);
}

}  // namespace

tile::Program hold_operands(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (kernel.threads() <= 0 || kernel.producers > 0) continue;
    const std::vector<Mem> mems = kernel.mems;
    for (const Mem& mem : mems)
      if (mem.space == Space::shared && mem.ring == 1 && mem.dims.size() == 2 && stays(kernel, mem.name))
        hold(program, kernel, mem, target);
  }
  return out;
}

}  // namespace astatide
