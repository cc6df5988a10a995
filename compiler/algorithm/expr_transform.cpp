#include <algorithm>
#include <unordered_map>
#include <utility>

#include "compiler/algorithm/expr.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

using Memo = std::unordered_map<const void*, Expr>;

bool same_operands(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return x.id() == y.id(); });
}

Expr transform_once(const Expr& e, const std::function<Expr(const Expr&)>& f, Memo& memo) {
  if (const auto found = memo.find(e.id()); found != memo.end()) return found->second;
  std::vector<Expr> operands = children(e);
  for (Expr& operand : operands) operand = transform_once(operand, f, memo);
  Expr out = f(with_children(e, std::move(operands)));
  memo.emplace(e.id(), out);
  return out;
}

void collect_free(const Expr& e, std::vector<std::string>& bound, std::set<std::string>& out) {
  if (const auto* v = e.as<Variable>()) {
    if (std::find(bound.begin(), bound.end(), v->name) == bound.end()) out.insert(v->name);
    return;
  }
  const auto* r = e.as<Reduce>();
  const bool binds = r && r->op != Reduction::softmax;
  if (r && !binds && std::find(bound.begin(), bound.end(), r->axis) == bound.end()) out.insert(r->axis);
  if (binds) bound.push_back(r->axis);
  for (const Expr& child : children(e)) collect_free(child, bound, out);
  if (binds) bound.pop_back();
}

using Values = std::map<std::string, Expr>;

/// j_1, j_2, ..: the first that neither the body nor a value put into it speaks of.
std::string fresh_axis(const std::string& axis, const std::set<std::string>& taken) {
  for (int i = 1;; ++i) {
    std::string name = axis + "_" + std::to_string(i);
    if (!taken.contains(name)) return name;
  }
}

Expr substitute_once(const Expr& e, const Values& values, Memo& memo);

Expr substitute_reduce(const Expr& e, const Reduce& r, const Values& values, Memo& memo) {
  if (r.op == Reduction::softmax && values.contains(r.axis)) {
    const Expr& at = values.at(r.axis);
    const auto* renamed = at.as<Variable>();
    const std::set<std::string> inside = free_variables(r.body.front());
    bool captured = !renamed || inside.contains(renamed->name);
    for (const auto& [name, value] : values)
      if (renamed && name != r.axis && inside.contains(name) && free_variables(value).contains(renamed->name))
        captured = true;
    if (captured) return substitute(expand_definitions(e), values);
    Expr body = substitute_once(r.body.front(), values, memo);
    return Expr(ExprNode(Reduce{r.op, renamed->name, {std::move(body)}}), e.line(), e.column());
  }
  const std::set<std::string> inside = free_variables(r.body.front());
  Values inner;
  std::set<std::string> taken = inside;
  for (const auto& [name, value] : values) {
    if (name == r.axis || !inside.contains(name)) continue;
    inner.emplace(name, value);
    taken.merge(free_variables(value));
  }
  if (inner.empty()) return e;
  std::string axis = r.axis;
  const bool captured = std::any_of(inner.begin(), inner.end(),
                                    [&](const auto& entry) { return free_variables(entry.second).contains(r.axis); });
  if (captured) {
    axis = fresh_axis(r.axis, taken);
    inner.insert_or_assign(r.axis, variable(axis));
  }
  Expr body = substitute(r.body.front(), inner);
  return Expr(ExprNode(Reduce{r.op, std::move(axis), {std::move(body)}}), e.line(), e.column());
}

Expr substitute_once(const Expr& e, const Values& values, Memo& memo) {
  if (const auto* v = e.as<Variable>()) {
    const auto found = values.find(v->name);
    return found == values.end() ? e : found->second;
  }
  if (const auto found = memo.find(e.id()); found != memo.end()) return found->second;
  Expr out = e;
  if (const auto* r = e.as<Reduce>()) {
    out = substitute_reduce(e, *r, values, memo);
  } else {
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = substitute_once(operand, values, memo);
    out = with_children(e, std::move(operands));
  }
  memo.emplace(e.id(), out);
  return out;
}

Expr expand_node(const Expr& e) {
  const auto* r = e.as<Reduce>();
  if (!r || (r->op != Reduction::softmax && r->op != Reduction::logsumexp)) return e;
  const Expr& x = r->body.front();
  const Expr peak = reduce(Reduction::max, r->axis, x);
  const Expr weight = call(Op::exp, {call(Op::sub, {x, peak})});
  const Expr total = reduce(Reduction::sum, r->axis, weight);
  if (r->op == Reduction::softmax) return Expr(ExprNode(Call{Op::div, {weight, total}}), e.line(), e.column());
  return Expr(ExprNode(Call{Op::add, {peak, call(Op::log, {total})}}), e.line(), e.column());
}

}  // namespace

std::vector<Expr> children(const Expr& e) {
  return match(
      e.node(), [](const Number&) { return std::vector<Expr>{}; }, [](const Integer&) { return std::vector<Expr>{}; },
      [](const Variable&) { return std::vector<Expr>{}; }, [](const Call& c) { return c.args; },
      [](const Read& r) { return r.indices; }, [](const Reduce& r) { return r.body; });
}

Expr with_children(const Expr& e, std::vector<Expr> operands) {
  const std::vector<Expr> before = children(e);
  if (operands.size() != before.size()) throw InternalError("with_children: wrong number of operands");
  if (same_operands(before, operands)) return e;
  ExprNode node = match(
      e.node(), [](const Number& n) { return ExprNode(n); }, [](const Integer& i) { return ExprNode(i); },
      [](const Variable& v) { return ExprNode(v); },
      [&](const Call& c) {
        return ExprNode(Call{c.op, std::move(operands)});
      },
      [&](const Read& r) {
        return ExprNode(Read{r.tensor, std::move(operands)});
      },
      [&](const Reduce& r) {
        return ExprNode(Reduce{r.op, r.axis, std::move(operands)});
      });
  return Expr(std::move(node), e.line(), e.column());
}

Expr transform(const Expr& e, const std::function<Expr(const Expr&)>& f) {
  Memo memo;
  return transform_once(e, f, memo);
}

Expr substitute(const Expr& e, const Values& values) {
  if (values.empty()) return e;
  Memo memo;
  return substitute_once(e, values, memo);
}

void visit(const Expr& e, const std::function<void(const Expr&)>& f) {
  for (const Expr& child : children(e)) visit(child, f);
  f(e);
}

std::set<std::string> free_variables(const Expr& e) {
  std::set<std::string> out;
  std::vector<std::string> bound;
  collect_free(e, bound, out);
  return out;
}

std::set<std::string> tensors_read(const Expr& e) {
  std::set<std::string> out;
  visit(e, [&](const Expr& node) {
    if (const auto* r = node.as<Read>()) out.insert(r->tensor);
  });
  return out;
}

bool reads_at(const Expr& e, const std::string& variable) {
  bool found = false;
  visit(e, [&](const Expr& node) { found = found || (node.as<Read>() && free_variables(node).contains(variable)); });
  return found;
}

bool has_exponential(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& inner) { found = found || inner.is_call(Op::exp) || inner.is_call(Op::exp2); });
  return found;
}

Expr expand_definitions(const Expr& e) { return transform(e, expand_node); }

}  // namespace astatide
