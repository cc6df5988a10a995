#include "compiler/passes/fold_factors.h"

#include <algorithm>

#include "compiler/support/contains.h"

namespace astatide {
namespace {

using tile::Kernel;
using tile::Map;
using tile::Stmt;

/// Numerators and divisors of a product, each the same for all elements or not.
struct Factors {
  std::vector<Expr> varying, same, same_below;
};

Expr product_of(const std::vector<Expr>& factors) {
  Expr out = factors.front();
  for (auto factor = factors.begin() + 1; factor != factors.end(); ++factor) out = out * *factor;
  return out;
}

class FactorFolder {
 public:
  FactorFolder(const tile::Program& program, const Kernel& kernel, const Map& map)
      : program_(program), kernel_(kernel), map_(map) {}

  /// Top down: the largest product first. `divides`: divisors may join the other factors.
  Expr folded(const Expr& e, bool divides) const {
    const auto* c = e.as<Call>();
    if (!c) return e;
    if (c->op == Op::mul || (divides && c->op == Op::div)) {
      Factors factors;
      take_apart(e, divides, factors);
      if (!factors.varying.empty() && factors.same.size() + 2 * factors.same_below.size() > 1)
        return together(std::move(factors), divides);
    }
    const bool inside = divides || contains(program_.approximate, c->op);
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = folded(operand, inside);
    return with_children(e, std::move(operands));
  }

 private:
  bool is_same(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return tensors_read(e).empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
             return !kernel_.find(name) && std::none_of(map_.at.begin(), map_.at.end(), [&](const auto& coordinate) {
               return coordinate.axis == name;
             });
           });
  }

  void take_apart(const Expr& e, bool divides, Factors& out) const {
    const auto* c = e.as<Call>();
    if (is_same(e)) {
      out.same.push_back(e);
    } else if (c && c->op == Op::mul) {
      for (const Expr& arg : c->args) take_apart(arg, divides, out);
    } else if (c && c->op == Op::div && divides && is_same(c->args[1])) {
      take_apart(c->args[0], divides, out);
      out.same_below.push_back(c->args[1]);
    } else {
      out.varying.push_back(e);
    }
  }

  Expr together(Factors factors, bool divides) const {
    for (Expr& factor : factors.varying) factor = folded(factor, divides);
    Expr same = factors.same.empty() ? Expr(1.0) : product_of(factors.same);
    if (!factors.same_below.empty()) same = same / product_of(factors.same_below);
    return product_of(factors.varying) * same;
  }

  const tile::Program& program_;
  const Kernel& kernel_;
  const Map& map_;
};

}  // namespace

tile::Program fold_factors(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    if (!tile::on_tensor_cores(kernel.body)) continue;
    kernel.body = tile::transform_blocks(kernel.body, [&](tile::Block block) {
      for (Stmt& stmt : block)
        if (auto* map = std::get_if<Map>(&stmt.node); map && kernel.find(map->dst)->dims.size() == 2)
          map->value = FactorFolder(program, kernel, *map).folded(map->value, false);
      return block;
    });
  }
  return out;
}

}  // namespace astatide
