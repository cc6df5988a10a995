#include <algorithm>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/lower_passes.h"

namespace astatide::tile {
namespace {

bool mentions(const Expr& e, const std::string& name) { return free_variables(e).contains(name); }

/// term = rest * factor, where only factor varies with `axis` and is an element of a tensor.
std::optional<std::pair<Expr, Expr>> split_factor(const Expr& term, const std::string& axis) {
  if (term.as<Read>()) return std::pair{Expr(1), term};
  const auto* c = term.as<Call>();
  if (!c) return std::nullopt;
  if (c->op == Op::neg) {
    auto inner = split_factor(c->args[0], axis);
    if (inner) inner->first = -inner->first;
    return inner;
  }
  if (c->op != Op::mul && c->op != Op::div && c->op != Op::absorb) return std::nullopt;
  const bool left = mentions(c->args[0], axis), right = mentions(c->args[1], axis);
  if (left == right || (c->op == Op::div && right)) return std::nullopt;
  auto inner = split_factor(c->args[left ? 0 : 1], axis);
  if (!inner) return std::nullopt;
  const Expr& other = c->args[left ? 1 : 0];
  if (c->op == Op::div) return std::pair{inner->first / other, inner->second};
  // Where the factor stands alone nothing of the product is infinite but what the input holds.
  if (inner->first.is_constant(1)) return std::pair{other, inner->second};
  const Expr rest = left ? call(c->op, {inner->first, other}) : call(c->op, {other, inner->first});
  return std::pair{rest, inner->second};
}

Expr replace_value(const Expr& e, const Expr& value, const std::string& name) {
  return transform(e, [&](const Expr& node) { return node == value ? variable(name) : node; });
}

PassStage as_pass(const Stage& stage, const std::vector<PassWeight>& weights, const std::string& axis) {
  PassStage out{stage.name, stage.op, stage.extra, stage.term, std::nullopt, stage.masked, stage.where};
  for (auto weight = weights.rbegin(); weight != weights.rend(); ++weight)
    out.term = replace_value(out.term, weight->value, weight->name);
  if (stage.extra.empty()) return out;
  if (stage.extra.size() > 1)
    throw UserError(stage.where, stage.name + " has the axes " + stage.extra[0] + " and " + stage.extra[1] +
                                     " beyond the rows, a tile has one");
  const std::string& extra = stage.extra.front();
  const auto split = stage.op == Reduction::sum ? split_factor(out.term, extra) : std::nullopt;
  if (!split)
    throw UserError(stage.where,
                    stage.name + ": contribution does not factor into a tile over " + axis + " and a (" + axis + "," +
                        extra + ") tile: " + to_string(out.term),
                    {"write it as a sum of products with one factor that varies with " + extra});
  out.term = split->first;
  out.factor = split->second;
  return out;
}

}  // namespace

const TiledElement* Passes::element(const std::string& name) const {
  for (const TiledElement& e : elements)
    if (e.holds(name)) return &e;
  return nullptr;
}

const PassWeight* Passes::weight(const std::string& name) const {
  for (const PassWeight& w : weights)
    if (w.name == name) return &w;
  return nullptr;
}

const PassStage* Passes::stage(const std::string& name) const {
  for (const PassStage& s : stages)
    if (s.name == name) return &s;
  return nullptr;
}

std::string Passes::tile_name(const std::string& name) const {
  const TiledElement* e = element(name);
  return e ? e->tile_name : name;
}

std::set<std::string> Passes::read_by(const Expr& e, bool through) const {
  std::set<std::string> out;
  for (const std::string& name : free_variables(e)) {
    if (element(name) || stage(name)) out.insert(name);
    if (const PassWeight* w = weight(name)) {
      out.insert(name);
      if (through || !roots.contains(name)) out.merge(read_by(w->value));
    }
  }
  return out;
}

std::set<std::string> Passes::read_by_stage(const std::string& name) const { return read_by(stage(name)->term); }

std::set<std::string> Passes::direct_stages(const Expr& e) const {
  std::set<std::string> out;
  for (const std::string& name : read_by(e))
    if (stage(name)) out.insert(name);
  return out;
}

std::set<std::string> Passes::stages_under(const Expr& e) const {
  std::set<std::string> out;
  for (const std::string& name : free_variables(e)) {
    if (const PassWeight* w = weight(name)) out.merge(stages_under(w->value));
    if (const PassStage* s = stage(name)) {
      out.insert(name);
      out.merge(stages_under(s->term));
    }
  }
  return out;
}

std::vector<Expr> Passes::predicates_under(const Expr& e) const {
  Expr expanded = e;
  for (auto w = weights.rbegin(); w != weights.rend(); ++w) expanded = substitute(expanded, {{w->name, w->value}});
  return predicates_of(expanded, elements);
}

Passes find_passes(const Cascade& cascade, const Schedule& schedule) {
  Passes out;
  for (const RowValue& value : cascade.values) {
    if (!contains(value.indices, cascade.axis)) continue;
    if (!schedule.find(value.name) && !value.output) continue;  // computed where it is read
    // An element under a name of its own, such as an output: it is not computed twice.
    const auto* v = value.value.as<Variable>();
    const bool is_element = v && std::any_of(cascade.elements.begin(), cascade.elements.end(),
                                             [&](const Element& element) { return element.name == v->name; });
    if (is_element) continue;
    PassWeight weight{value.name, value.value, value.where};
    for (auto earlier = out.weights.rbegin(); earlier != out.weights.rend(); ++earlier)
      weight.value = replace_value(weight.value, earlier->value, earlier->name);
    out.weights.push_back(std::move(weight));
  }
  for (const Stage& stage : cascade.stages) out.stages.push_back(as_pass(stage, out.weights, cascade.axis));
  std::vector<Expr> reads;
  for (const PassWeight& weight : out.weights) reads.push_back(weight.value);
  for (const PassStage& stage : out.stages) reads.push_back(stage.term);
  for (const RowValue& value : cascade.values)
    if (value.output) reads.push_back(value.value);
  out.elements = merge_elements(cascade.elements, reads, schedule);
  return out;
}

}  // namespace astatide::tile
