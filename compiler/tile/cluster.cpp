#include "compiler/tile/cluster.h"

#include <algorithm>

namespace astatide::tile {
namespace {

Expr number_of(const Cluster& cluster) { return floor_div(variable(cluster.var), Expr(cluster.blocks)); }

}  // namespace

Bounds tiles_of(const Cluster& cluster) {
  const Expr first = number_of(cluster) * Expr(cluster.blocks);
  return {first, first + Expr(cluster.blocks - 1)};
}

AlikeInCluster::AlikeInCluster(const Kernel& kernel)
    : number_(number_of(*kernel.cluster)), differ_{kernel.cluster->var} {
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.node); let && !holds(let->value)) differ_.insert(let->name);
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && !(holds(loop->begin) && holds(loop->end)))
      differ_.insert(loop->var);
    if (const std::string* flag = flag_of(stmt)) differ_.insert(*flag);
  });
}

bool AlikeInCluster::holds(const Expr& e) const {
  const Expr rest = transform(e, [&](const Expr& node) { return node == number_ ? Expr(0) : node; });
  const std::set<std::string> names = free_variables(rest);
  return std::none_of(names.begin(), names.end(), [&](const std::string& name) { return differ_.contains(name); });
}

bool AlikeInCluster::holds(const View& view) const {
  return std::all_of(view.indices.begin(), view.indices.end(), [&](const Expr& index) { return holds(index); }) &&
         std::all_of(view.at.begin(), view.at.end(), [&](const Coordinate& c) { return holds(c.origin); });
}

}  // namespace astatide::tile
