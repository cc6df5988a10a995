#include "compiler/passes/fold_exponents.h"

#include <algorithm>

namespace astatide {
namespace {

using tile::Kernel;
using tile::Stmt;

constexpr double kLog2e = 1.4426950408889634;

std::size_t most_axes(const Expr& e, const Kernel& kernel) {
  std::size_t most = 0;
  for (const std::string& name : free_variables(e))
    if (const tile::Mem* mem = kernel.find(name)) most = std::max(most, mem->dims.size());
  return most;
}

bool reads_coordinates(const Expr& e, const tile::Map& map) {
  const std::set<std::string> names = free_variables(e);
  return std::any_of(map.at.begin(), map.at.end(),
                     [&](const tile::Coordinate& coordinate) { return names.contains(coordinate.axis); });
}

/// x * log2(e), with a factor of x that is a number of its own kept beside it.
Expr in_powers_of_two(const Expr& x, const Kernel& kernel) {
  const auto* c = x.as<Call>();
  if (c && c->op == Op::mul && most_axes(c->args[1], kernel) == 0 && tensors_read(c->args[1]).empty())
    return c->args[0] * (c->args[1] * Expr(kLog2e));
  return x * Expr(kLog2e);
}

Expr folded(const Expr& e, const tile::Map& map, const Kernel& kernel) {
  if (!e.is_call(Op::exp)) return e;
  const Expr exponent = e.as<Call>()->args[0];
  if (!exponent.is_call(Op::sub)) return e;
  const Expr &x = exponent.as<Call>()->args[0], &r = exponent.as<Call>()->args[1];
  const bool row = most_axes(r, kernel) == 1 && !reads_coordinates(r, map) && tensors_read(r).empty();
  if (most_axes(x, kernel) != 2 || !row) return e;
  return call(Op::exp2, {in_powers_of_two(x, kernel) - r * Expr(kLog2e)});
}

}  // namespace

tile::Program fold_exponents(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (!tile::on_tensor_cores(kernel.body)) continue;
    kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
      for (Stmt& stmt : block)
        if (auto* map = std::get_if<tile::Map>(&stmt.node); map && kernel.find(map->dst)->dims.size() == 2)
          map->value = transform(map->value, [&](const Expr& e) { return folded(e, *map, kernel); });
      return block;
    });
  }
  return out;
}

}  // namespace astatide
