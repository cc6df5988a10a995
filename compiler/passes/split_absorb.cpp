#include "compiler/passes/split_absorb.h"

#include <algorithm>
#include <limits>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::If;
using tile::Kernel;
using tile::Map;
using tile::Mem;
using tile::Stmt;

/// What a map scales: a tile in registers by the number that a tile of rows holds.
struct Scaling {
  const Mem* tile = nullptr;
  const Mem* rows = nullptr;
};

Scaling scaling_of(const Map& map, const Kernel& kernel) {
  const auto* c = map.value.as<Call>();
  if (!c || c->op != Op::absorb || map.absent || map.columns) return {};
  const auto *x = c->args[0].as<Variable>(), *factor = c->args[1].as<Variable>();
  if (!x || !factor) return {};
  const Mem *tile = kernel.find(x->name), *rows = kernel.find(factor->name);
  const auto in_registers = [](const Mem* mem) { return mem && mem->space == Space::register_file; };
  if (!in_registers(tile) || !in_registers(rows) || !in_registers(kernel.find(map.dst))) return {};
  return tile->dims.size() == 2 && rows->dims.size() == 1 ? Scaling{tile, rows} : Scaling{};
}

class AbsorbSplitter {
 public:
  AbsorbSplitter(const tile::Program& program, Kernel& kernel)
      : kernel_(kernel), names_(names_in_kernel(program, kernel)) {}

  void run() {
    Block out;
    for (std::size_t n = 0; n < kernel_.body.size(); ++n) {
      const auto* map = std::get_if<Map>(&kernel_.body[n].node);
      const Scaling scaling = map ? scaling_of(*map, kernel_) : Scaling{};
      if (scaling.tile && !is_read_behind(n, scaling.tile->name))
        split(*map, scaling, out);
      else
        out.push_back(kernel_.body[n]);
    }
    kernel_.body = std::move(out);
  }

 private:
  bool is_read_behind(std::size_t n, const tile::TileName& name) const {
    return std::any_of(kernel_.body.begin() + static_cast<std::ptrdiff_t>(n) + 1, kernel_.body.end(),
                       [&](const Stmt& stmt) { return contains(tile::effects_of(stmt).reads, name); });
  }

  void split(Map map, const Scaling& scaling, Block& out) {
    const std::string flag = names_.fresh("infinite");
    const Expr tile = variable(scaling.tile->name), row = variable(scaling.rows->name);
    const Expr is_finite = less(call(Op::abs, {row}), Expr(std::numeric_limits<double>::infinity()));
    out.push_back({tile::Vote{flag, negation(is_finite)}});
    // In place: no second tile has to live across the branches.
    const auto scale = [&](const Expr& by) { return Block{{Map{scaling.tile->name, std::nullopt, by, {}, {}, {}}}}; };
    out.push_back({If{negation(variable(flag)), If::Uniform::warp, false, scale(tile * row)}});
    out.push_back({If{variable(flag), If::Uniform::warp, true, scale(map.value)}});
    map.value = tile;
    if (map.dst != scaling.tile->name) out.push_back({std::move(map)});
  }

  Kernel& kernel_;
  FreshNames names_;
};

}  // namespace

tile::Program split_absorb(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels)
    if (tile::on_tensor_cores(kernel.body)) AbsorbSplitter(program, kernel).run();
  return out;
}

}  // namespace astatide
