#include "compiler/rewrite/canonical_axes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/support/match.h"

namespace astatide {

namespace {

using Renaming = std::map<std::string, std::string>;

std::set<std::string> axes_of(const Func& func) {
  std::set<std::string> axes(func.indices.begin(), func.indices.end());
  visit(func.value, [&](const Expr& e) {
    if (const auto* r = e.as<Reduce>()) axes.insert(r->axis);
  });
  return axes;
}

Renaming renaming_for(const Func& func, const std::map<std::string, const Func*>& earlier,
                      const std::map<std::string, Expr>& extents) {
  const std::set<std::string> axes = axes_of(func);
  Renaming renaming;
  std::set<std::string> ambiguous;
  const auto look_at = [&](const Expr& e) {
    const auto* read = e.as<Read>();
    if (!read || !earlier.contains(read->tensor)) return;
    const Func& target = *earlier.at(read->tensor);
    for (std::size_t i = 0; i < std::min(read->indices.size(), target.indices.size()); ++i) {
      const auto* axis = read->indices[i].as<Variable>();
      if (!axis || !axes.contains(axis->name)) continue;
      const auto [entry, is_new] = renaming.emplace(axis->name, target.indices[i]);
      if (!is_new && entry->second != target.indices[i]) ambiguous.insert(axis->name);
    }
  };
  visit(func.value, look_at);
  if (func.where_predicate) visit(*func.where_predicate, look_at);

  std::set<std::string> targets;
  for (const auto& [from, to] : renaming) {
    const bool same_length = !extents.contains(from) || !extents.contains(to) || extents.at(from) == extents.at(to);
    if (ambiguous.contains(from) || !same_length || !targets.insert(to).second) return {};
  }
  // A target that is an axis of this definition must itself be renamed away, or stay as it is.
  for (const auto& [from, to] : renaming) {
    if (from != to && axes.contains(to) && !renaming.contains(to)) return {};
  }
  std::erase_if(renaming, [](const auto& entry) { return entry.first == entry.second; });
  return renaming;
}

Expr renamed(const Expr& e, const Renaming& renaming) {
  const auto name = [&](const std::string& axis) {
    auto found = renaming.find(axis);
    return found == renaming.end() ? axis : found->second;
  };
  return transform(e, [&](const Expr& node) {
    if (const auto* v = node.as<Variable>(); v && renaming.contains(v->name)) {
      return Expr(ExprNode(Variable{name(v->name)}), node.line(), node.column());
    }
    if (const auto* r = node.as<Reduce>(); r && renaming.contains(r->axis)) {
      return Expr(ExprNode(Reduce{r->op, name(r->axis), r->body}), node.line(), node.column());
    }
    return node;
  });
}

}  // namespace

std::vector<Func> with_canonical_axes(const std::vector<Func>& definitions,
                                      const std::map<std::string, Expr>& extents) {
  std::vector<Func> result;
  result.reserve(definitions.size());
  std::map<std::string, const Func*> earlier;
  for (Func func : definitions) {
    func.value = expand_definitions(func.value);
    const Renaming renaming = renaming_for(func, earlier, extents);
    if (!renaming.empty()) {
      for (std::string& index : func.indices) {
        if (auto found = renaming.find(index); found != renaming.end()) index = found->second;
      }
      func.value = renamed(func.value, renaming);
      for (Expr& place : func.stored) place = renamed(place, renaming);
      if (func.where_predicate) func.where_predicate = renamed(*func.where_predicate, renaming);
    }
    result.push_back(std::move(func));
    earlier[result.back().name] = &result.back();
  }
  return result;
}

}  // namespace astatide
