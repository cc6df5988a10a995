#include "compiler/passes/infer_layouts.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/round_up.h"
#include "compiler/tile/parameters.h"

namespace astatide {
namespace {

using tile::Kernel;
using tile::Mem;
using tile::Mma;
using tile::Stmt;

constexpr int kVector = 4;  // elements of f32 in 16 bytes

/// Tiles in registers that must be held alike, as sets with a representative.
class Groups {
 public:
  const std::string& find(const std::string& name) {
    auto [it, inserted] = parent_.try_emplace(name, name);
    if (it->second == name) return it->second;
    it->second = find(it->second);
    return it->second;
  }
  void join(const std::string& a, const std::string& b) {
    const std::string root = find(a);
    parent_[root] = find(b);
  }

 private:
  std::map<std::string, std::string> parent_;
};

class Layouts {
 public:
  Layouts(const tile::Program& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  void run() {
    kernel_.body = tile::transform_blocks(kernel_.body, [this](tile::Block block) {
      for (Stmt& stmt : block)
        if (auto* mma = std::get_if<Mma>(&stmt.node)) choose_family(*mma);
      return block;
    });
    if (kernel_.threads() <= 0) return;
    tile::walk(kernel_.body, [this](const Stmt& stmt) { collect(stmt); });
    find_apart();
    for (Mem& mem : kernel_.mems) mem.layout = mem.space == Space::shared ? shared_layout(mem) : register_layout(mem);
  }

 private:
  /// Tiles of what one block of many does behind an arrival, or all threads of one behind its teams: nothing else reads
  /// them, so they need not lie as the operands of products do.
  void find_apart() {
    std::set<std::string> flags;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      if (const auto* arrive = std::get_if<tile::Arrive>(&stmt.node)) flags.insert(arrive->flag);
    });
    if (flags.empty() && kernel_.teams == 1) return;
    std::set<std::string> others;
    find_apart(kernel_.body, flags, kernel_.teams > 1, others);
    for (const std::string& name : others) apart_.erase(name);
  }
  void find_apart(const tile::Block& block, const std::set<std::string>& flags, bool apart,
                  std::set<std::string>& others) {
    for (const Stmt& stmt : block) {
      const auto* branch = std::get_if<tile::If>(&stmt.node);
      const auto* tested = branch ? branch->condition.as<Variable>() : nullptr;
      if (const tile::Block* body = tile::nested_block(stmt)) {
        const auto* loop = std::get_if<tile::For>(&stmt.node);
        const bool in_team = loop && loop->kind == tile::For::Kind::teams;
        find_apart(*body, flags, !in_team && (apart || (tested && flags.contains(tested->name))), others);
        continue;
      }
      const tile::Effects effects = tile::effects_of(stmt);
      for (const auto* names : {&effects.reads, &effects.writes})
        for (const std::string& name : *names)
          if (kernel_.find(name)) (apart ? apart_ : others).insert(name);
    }
  }

  void choose_family(Mma& mma) {
    if (mma.by == tile::Family::unset) mma.by = tile::Family::fma;
    if (kernel_.threads() <= 0) return;
    if (mma.by != tile::Family::fma) {
      tensor_cores_ = true;
      for (const tile::Operand* operand : {&mma.lhs, &mma.rhs}) {
        const auto* name = std::get_if<tile::TileName>(operand);
        if (!name) throw InternalError("infer_layouts: an operand of " + mma.dst + " is not staged");
        if (kernel_.find(*name)->space == Space::shared) operands_.insert(*name);
        if (mma.by == tile::Family::wgmma) in_panels_.insert(*name);
      }
      return;
    }
    for (const tile::Operand* operand : {&mma.lhs, &mma.rhs}) {
      const auto* name = std::get_if<tile::TileName>(operand);
      if (!name) {
        const std::string& tensor = std::get<tile::View>(*operand).tensor;
        throw UserError(fmt::format("{}: the product {} by fma reads its operands from shared memory", tensor, mma.dst),
                        {fmt::format("add {}: {{stage_at: …, store_in: shared}}", tensor)});
      }
      const Mem* mem = kernel_.find(*name);
      if (mem->space != Space::shared)
        throw UserError(
            fmt::format("{}: store_in: register, but the product {} by fma reads its operands from shared memory",
                        *name, mma.dst),
            {fmt::format("{}: {{store_in: shared}}", *name)});
    }
  }

  bool is_fragment(const std::string& name) const {
    const Mem* mem = kernel_.find(name);
    return mem && mem->space == Space::register_file && mem->dims.size() == 2;
  }

  void collect(const Stmt& stmt) {
    if (const auto* map = std::get_if<tile::Map>(&stmt.node)) {
      std::string first;
      const auto meet = [&](const std::string& name) {
        if (!is_fragment(name)) return;
        if (!first.empty()) groups_.join(first, name);
        first = name;
      };
      meet(map->dst);
      for (const std::string& name : free_variables(map->value)) meet(name);
    } else if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) {
      const auto* view = std::get_if<tile::View>(&copy->src);
      const auto* to = std::get_if<tile::TileName>(&copy->dst);
      const auto* from = std::get_if<tile::TileName>(&copy->src);
      // A state that is only moved and added.
      if (view && to && tile::is_dense_in(program_, view->tensor, kVector) && !tile::has_products(kernel_.body))
        in_vectors_.insert(*to);
      if (to && from && is_fragment(*to) && is_fragment(*from)) groups_.join(*to, *from);
      if (from && tile::view_stored_by_tma(stmt)) in_panels_.insert(*from);
      if (to && view && copy->via == tile::Via::tma) in_panels_.insert(*to);
      if (from && copy->via == tile::Via::ldmatrix) {
        operands_.insert(*from);
        if (size_in_bytes(kernel_.find(*from)->type) == 4) single_columns_.insert(*to);
      }
    } else if (const auto* mma = std::get_if<Mma>(&stmt.node)) {
      const Mem& lhs = *kernel_.find(std::get<tile::TileName>(mma->lhs));
      const Mem& rhs = *kernel_.find(std::get<tile::TileName>(mma->rhs));
      const std::string& contracted = lhs.dims.back().axis;
      if (rhs.dims.back().axis == contracted) {
        one_by_one_.insert(mma->dst);
      } else {
        read_across_.insert(rhs.name);
        if (const auto pitch = aligned_pitch(rhs); !pitch || *pitch % kVector == 0) in_vectors_.insert(mma->dst);
      }
    }
  }

  bool group_has(const std::string& name, const std::set<std::string>& members) {
    for (const std::string& member : members)
      if (is_fragment(member) && groups_.find(member) == groups_.find(name)) return true;
    return false;
  }

  /// Rows over as many threads each, which take neighbouring columns: what a row needs from memory lies side by side.
  tile::Layout apart_layout(const Mem& mem) const {
    const int rows = mem.dims[0].extent, threads = kernel_.threads() * kernel_.teams;
    if (threads % rows != 0)
      throw InternalError("infer_layouts: " + mem.name + " has rows for some of the threads only");
    tile::ThreadGrid grid{rows, threads / rows, 1, 1};
    if (mem.dims.size() == 1) return tile::RowsOf{grid};
    if (mem.dims[1].extent % (kVector * grid.columns) == 0) grid.column_vector = kVector;
    return grid;
  }

  tile::Layout register_layout(const Mem& mem) {
    if (apart_.contains(mem.name)) return apart_layout(mem);
    tile::ThreadGrid grid{kernel_.thread_rows, kernel_.thread_columns, 1, 1};
    if (tensor_cores_) grid.row_vector = grid.column_vector = 2, grid.row_unit = 8;
    if (mem.dims.size() == 1) return tile::RowsOf{grid};
    if (single_columns_.contains(mem.name)) grid.column_vector = 1;
    // A vector of columns a thread, unless that leaves many threads without work at the tile's edge.
    if (tensor_cores_) return grid;
    const int extent = mem.dims[1].extent, step = kVector * grid.columns;
    const bool fits = extent % kVector == 0 && round_up(extent, step) * 2 <= extent * 3;
    if (fits && group_has(mem.name, in_vectors_) && !group_has(mem.name, one_by_one_)) grid.column_vector = kVector;
    return grid;
  }

  /// The distance of rows that the schedule asks for.
  std::optional<int> aligned_pitch(const Mem& mem) const {
    // Tensor cores read 16 columns at a time, those beyond a tile's edge too.
    const int extent = mem.dims.back().extent, read = operands_.contains(mem.name) ? round_up(extent, 16) : extent;
    for (const auto& [axis, multiple] : mem.align)
      if (axis == mem.dims.back().axis) return round_up(read, static_cast<int>(multiple));
    return std::nullopt;
  }

  tile::Layout shared_layout(const Mem& mem) const {
    const int extent = mem.dims.back().extent;
    if (const auto pitch = aligned_pitch(mem)) return tile::Rows{*pitch};
    if (mem.dims.size() == 1) return tile::Rows{extent};
    if (in_panels_.contains(mem.name)) return tile::Panels{};
    if (operands_.contains(mem.name)) {
      const int columns = round_up(extent, 16), bytes = columns * size_in_bytes(mem.type);
      if (bytes % 128 == 0 && columns == extent) return tile::Panels{};
      return tile::Rows{bytes / 16 % 2 == 0 ? columns + 16 / size_in_bytes(mem.type) : columns};
    }
    const int vector = 16 / size_in_bytes(mem.type);
    int pitch = round_up(extent, vector);
    // An odd number of vectors a row: the same column of 8 neighbouring rows lies in 8 different groups of banks.
    if (!read_across_.contains(mem.name) && pitch / vector % 2 == 0) pitch += vector;
    return tile::Rows{pitch};
  }

  const tile::Program& program_;
  Kernel& kernel_;
  Groups groups_;
  std::set<std::string> read_across_, one_by_one_, in_vectors_;
  bool tensor_cores_ = false;
  std::set<std::string> operands_;        // of tensor cores, in shared memory
  std::set<std::string> in_panels_;       // that wgmma reads, or TMA
  std::set<std::string> apart_;           // in registers, behind arrivals only
  std::set<std::string> single_columns_;  // which ldmatrix deals out 4 bytes a thread
};

}  // namespace

tile::Program infer_layouts(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) Layouts(program, kernel).run();
  return out;
}

}  // namespace astatide
