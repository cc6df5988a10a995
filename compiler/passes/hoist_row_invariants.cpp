#include "compiler/passes/hoist_row_invariants.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/names_in_kernel.h"

namespace astatide {
namespace {

using tile::Block;
using tile::Kernel;
using tile::Map;
using tile::Mem;
using tile::Stmt;

class Hoister {
 public:
  Hoister(const tile::Program& program, Kernel& kernel) : kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  Block run(const Block& block) {
    Block out;
    available_.clear();
    for (Stmt stmt : block) {
      if (auto* map = std::get_if<Map>(&stmt.node)) hoist(*map, out);
      forget(stmt);
      out.push_back(std::move(stmt));
    }
    return out;
  }

 private:
  /// The tile of rows that an expression can be held in: nullptr where it varies within a row, or reads no tile.
  const Mem* row_tile_of(const Expr& e, const Map& map) const {
    if (!e.as<Call>()) return nullptr;
    const Mem* rows = nullptr;
    for (const std::string& name : free_variables(e)) {
      if (std::any_of(map.at.begin(), map.at.end(), [&](const auto& c) { return c.axis == name; })) return nullptr;
      const Mem* mem = kernel_.find(name);
      if (!mem) continue;  // the same for all rows
      if (mem->dims.size() != 1 || mem->space != Space::register_file) return nullptr;
      if (rows && !(rows->dims == mem->dims)) return nullptr;
      rows = mem;
    }
    return rows;
  }

  void hoist(Map& map, Block& out) {
    const Mem& dst = *kernel_.find(map.dst);
    map.value = rewritten(map.value, map, dst.dims.size() > 1, out);
  }

  /// Top down, so that the largest subexpressions go.
  Expr rewritten(const Expr& e, const Map& map, bool makes_new, Block& out) {
    if (const Mem* like = row_tile_of(e, map)) {
      const auto found = available_.find(e);
      if (found != available_.end()) return variable(found->second);
      if (makes_new) {
        const std::string name = row_tile(e, *like);
        out.push_back({Map{name, std::nullopt, e, {}, std::nullopt, {}}});
        forget(out.back());
        available_.emplace(e, name);
        return variable(name);
      }
    }
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = rewritten(operand, map, makes_new, out);
    return with_children(e, std::move(operands));
  }

  /// One expression has one tile in all blocks, so that copies of a body stay alike.
  std::string row_tile(const Expr& e, const Mem& like) {
    if (const auto found = declared_.find(e); found != declared_.end()) return found->second;
    Mem mem;
    mem.dims = like.dims;
    mem.name = names_.fresh("row");
    kernel_.mems.push_back(mem);
    declared_.emplace(e, mem.name);
    return mem.name;
  }

  /// What a statement overwrites, no row tile holds any more.
  void forget(const Stmt& stmt) {
    const std::vector<std::string> writes = tile::effects_of(stmt).writes;
    std::erase_if(available_, [&](const auto& entry) {
      const std::set<std::string> read = free_variables(entry.first);
      return std::any_of(writes.begin(), writes.end(),
                         [&](const std::string& name) { return name == entry.second || read.contains(name); });
    });
  }

  Kernel& kernel_;
  FreshNames names_;
  std::map<Expr, std::string> declared_;
  std::map<Expr, std::string> available_;  // those that hold their value here
};

}  // namespace

tile::Program hoist_row_invariants(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    Hoister hoister(program, kernel);
    kernel.body = tile::transform_blocks(kernel.body, [&](const Block& block) { return hoister.run(block); });
  }
  return out;
}

}  // namespace astatide
