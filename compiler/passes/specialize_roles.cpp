#include "compiler/passes/specialize_roles.h"

#include <algorithm>
#include <set>

#include "compiler/passes/own_loops.h"
#include "compiler/support/contains.h"
#include "compiler/tile/parameters.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Kernel;
using tile::Stmt;

/// setmaxnreg of the producer and the consumers, by the number of consumers: the sum is what a launch gives the block,
/// and multiples of 8 (PTX ISA, setmaxnreg). One consumer beside a producer has all it can use without.
struct Registers {
  int producer = 0, consumer = 0;
};
Registers registers_of(int consumers) {
  switch (consumers) {
    case 2:
      return {40, 232};
    case 3:
      return {32, 160};
    case 4:
      return {32, 112};
    default:
      return {};
  }
}

/// The producer loads tiles, in slots that it reserves; the consumers do all else.
class Roles {
 public:
  explicit Roles(const Block& body) : loaded_(tile::tiles_loaded_by_tma(body)) {}

  /// The statements of one role, with the loops and conditions around them.
  Block part_of(const Block& block, bool producer) const {
    Block out;
    for (const Stmt& stmt : block) {
      if (const Block* body = tile::nested_block(stmt)) {
        if (!has_work(*body, producer)) continue;
        Stmt copy = stmt;
        *tile::nested_block(copy) = part_of(*body, producer);
        out.push_back(std::move(copy));
      } else if (std::holds_alternative<tile::Let>(stmt.node) || is_producers(stmt) == producer) {
        out.push_back(stmt);
      }
    }
    return out;
  }

 private:
  bool is_producers(const Stmt& stmt) const {
    if (const auto* reserve = std::get_if<tile::Reserve>(&stmt.node)) return loaded_.contains(reserve->tile);
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    return copy && copy->via == tile::Via::tma && !tile::view_stored_by_tma(stmt);
  }

  bool has_work(const Block& block, bool producer) const {
    bool found = false;
    tile::walk(block, [&](const Stmt& stmt) {
      const bool structure = tile::nested_block(stmt) || std::holds_alternative<tile::Let>(stmt.node);
      found = found || (!structure && is_producers(stmt) == producer);
    });
    return found;
  }

  std::set<tile::TileName> loaded_;
};

/// Whether a slot is filled here: it is reserved, and the copy stands behind that.
bool fills_single_slot(const Kernel& kernel, const Block& block, std::size_t at) {
  const auto* reserve = at + 1 < block.size() ? std::get_if<tile::Reserve>(&block[at].node) : nullptr;
  return reserve && kernel.find(reserve->tile)->ring == 1 && std::holds_alternative<tile::Copy>(block[at + 1].node);
}

/// Where blocks stay, the only slot of a tile is free when the tile before is nearly done. What is copied into it comes
/// into the L2 cache meanwhile, and the copies of a peeled iteration, which need not wait for it, go first.
void wait_for_single_slots(const Kernel& kernel, Block& block) {
  for (std::size_t n = 0; n < block.size(); ++n) {
    if (!fills_single_slot(kernel, block, n)) continue;
    std::get<tile::Reserve>(block[n].node).ahead = std::get<tile::View>(std::get<tile::Copy>(block[n + 1].node).src);
  }
  for (std::size_t n = block.size(); n-- > 0;) {
    const auto* next = n + 2 < block.size() ? std::get_if<tile::For>(&block[n + 2].node) : nullptr;
    if (!next || next->kind != tile::For::Kind::once || !fills_single_slot(kernel, block, n)) continue;
    const auto begin = block.begin() + static_cast<std::ptrdiff_t>(n);
    std::rotate(begin, begin + 2, begin + 3);
  }
}

/// What searches in tensors have found for a tile and the consumers read is searched for once, by the producer, which
/// is ahead of them.
void deal_searches(Block& body) {
  const auto consumers = tile::effects_of(body.back()).reads;
  std::set<std::string> found;
  for (Stmt& stmt : body) {
    auto* let = std::get_if<tile::Let>(&stmt.node);
    if (!let || let->own) continue;
    bool searches = false;
    visit(let->value, [&](const Expr& e) {
      const auto* name = e.as<Variable>();
      searches = searches || e.is_call(Op::count_below) || (name && found.contains(name->name));
    });
    if (!searches) continue;
    found.insert(let->name);
    let->dealt = contains(consumers, let->name);
  }
}

}  // namespace

tile::Program specialize_roles(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (kernel.producers == 0) continue;
    const int consumers = kernel.warpgroups();
    const Registers registers = registers_of(consumers);
    // What both evaluate stands in front of both.
    Block body;
    OwnLoops own(program, kernel);
    for (const Stmt& stmt : kernel.body)
      if (const auto* let = std::get_if<tile::Let>(&stmt.node); let && !own.takes(*let)) body.push_back(stmt);
    std::erase_if(kernel.body, [](const Stmt& stmt) { return std::holds_alternative<tile::Let>(stmt.node); });
    const Roles roles(kernel.body);
    Block copies = roles.part_of(kernel.body, true);
    if (kernel.persistent) wait_for_single_slots(kernel, copies);
    body.push_back({tile::Role{"producer", kernel.producers, registers.producer, std::move(copies)}});
    body.push_back({tile::Role{"consumer", consumers, registers.consumer, own.run(roles.part_of(kernel.body, false))}});
    if (kernel.persistent && !kernel.cluster) deal_searches(body);
    kernel.body = std::move(body);
  }
  return out;
}

}  // namespace astatide
