#include "compiler/passes/skip_tiles.h"

#include <algorithm>
#include <set>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Copy;
using tile::Kernel;
using tile::Stmt;
using tile::View;

/// Terms of a minimum, each of which is a limit.
void add_limits(const Expr& limit, std::vector<Expr>& out) {
  if (!limit.is_call(Op::min)) return out.push_back(limit);
  for (const Expr& arg : limit.as<Call>()->args) add_limits(arg, out);
}

class TileSkipper {
 public:
  explicit TileSkipper(const Kernel& kernel) : kernel_(kernel) {
    for (const tile::TileAxis& axis : kernel.tiles) axes_.insert(axis.var);
    tile::walk(kernel.body, [&](const Stmt& stmt) {
      for (const std::string& name : tile::effects_of(stmt).writes) inner_.insert(name);
      if (const auto* loop = std::get_if<tile::For>(&stmt.node)) inner_.insert(loop->var);
    });
  }

  /// What holds of every tile that stores anything; nothing where tensors don't say.
  std::vector<Expr> conditions() const {
    std::optional<std::vector<Expr>> common;
    tile::walk(kernel_.body, [&](const Stmt& stmt) {
      const auto* copy = std::get_if<Copy>(&stmt.node);
      const auto* view = copy ? std::get_if<View>(&copy->dst) : nullptr;
      if (!view) return;
      const std::vector<Expr> here = conditions_of(*view);
      if (!common)
        common = here;
      else
        std::erase_if(*common, [&](const Expr& condition) { return !contains(here, condition); });
    });
    return common.value_or(std::vector<Expr>());
  }

 private:
  std::vector<Expr> conditions_of(const View& view) const {
    std::vector<Expr> out;
    for (const tile::Coordinate& coordinate : view.at) {
      std::vector<Expr> limits;
      if (coordinate.limit) add_limits(*coordinate.limit, limits);
      for (const Expr& limit : limits) {
        const Expr condition = less(coordinate.origin, limit);
        const std::set<std::string> names = free_variables(condition);
        const bool of_tile =
            std::any_of(names.begin(), names.end(), [&](const std::string& name) { return axes_.contains(name); }) &&
            std::none_of(names.begin(), names.end(), [&](const std::string& name) { return inner_.contains(name); });
        if (of_tile && !tensors_read(limit).empty()) out.push_back(condition);
      }
    }
    return out;
  }

  const Kernel& kernel_;
  std::set<std::string> axes_, inner_;  // variables of tiles, and what the body sets
};

/// Loops of tiles for which the condition holds.
tile::Block without(const Expr& condition, const tile::Block& block) {
  const auto chosen = [&](const Expr& e) {
    return transform(e, [&](const Expr& part) {
      return part.is_call(Op::select) && part.as<Call>()->args[0] == condition ? part.as<Call>()->args[1] : part;
    });
  };
  return tile::transform_blocks(block, [&](tile::Block out) {
    for (Stmt& stmt : out) {
      if (auto* let = std::get_if<tile::Let>(&stmt.node)) let->value = chosen(let->value);
      if (auto* loop = std::get_if<tile::For>(&stmt.node)) {
        loop->begin = chosen(loop->begin);
        loop->end = chosen(loop->end);
      }
    }
    return out;
  });
}

}  // namespace

tile::Program skip_tiles(const tile::Program& program, const Target& target) {
  tile::Program out = program;
  if (!target.is_cuda()) return out;
  for (Kernel& kernel : out.kernels) {
    if (kernel.cluster) continue;
    const std::vector<Expr> conditions = TileSkipper(kernel).conditions();
    for (const Expr& condition : conditions) {
      kernel.exists = kernel.exists ? call(Op::logical_and, {*kernel.exists, condition}) : condition;
      kernel.body = without(condition, kernel.body);
    }
  }
  return out;
}

}  // namespace astatide
