#include <algorithm>
#include <limits>

#include "compiler/algorithm/algorithm.h"

namespace astatide {
namespace {

Expr within(const Algorithm& algorithm, const std::string& axis) {
  return less(variable(axis), algorithm.lengths.at(axis));
}

/// What an element that a ragged axis has not counts for.
double neutral(Reduction op) {
  const bool simple = op == Reduction::sum || op == Reduction::max || op == Reduction::min;
  return simple ? unit_of(op) : -std::numeric_limits<double>::infinity();
}

}  // namespace

void add_axis(Algorithm& algorithm, const std::string& axis, const Expr& extent) {
  const auto* bounded = extent.is_call(Op::le) ? extent.as<Call>() : nullptr;
  algorithm.axes.insert_or_assign(axis, bounded ? bounded->args[1] : extent);
  if (bounded) algorithm.lengths.insert_or_assign(axis, bounded->args[0]);
}

std::map<std::string, Expr> infer_axis_lengths(const Algorithm& algorithm, Diagnostics& errors) {
  std::map<std::string, Expr> out = infer_axis_extents(algorithm, errors);
  for (const auto& [axis, length] : algorithm.lengths) out.insert_or_assign(axis, length);
  return out;
}

std::optional<Expr> within_lengths(const Algorithm& algorithm, const std::vector<std::string>& axes) {
  std::optional<Expr> out;
  for (const std::string& axis : axes) {
    if (!algorithm.lengths.contains(axis)) continue;
    const Expr predicate = within(algorithm, axis);
    out = out ? logical_and(*out, predicate) : predicate;
  }
  return out;
}

Algorithm with_lengths_as_predicates(const Algorithm& algorithm) {
  Algorithm out = algorithm;
  out.lengths.clear();
  out.output_dims.clear();
  // In front of what was written: that need not mean anything for elements which are not there.
  const auto add_lengths = [&](Func& func) {
    if (const auto present = within_lengths(algorithm, func.indices))
      func.where_predicate = func.where_predicate ? logical_and(*present, *func.where_predicate) : *present;
  };
  for (Func& update : out.updates) add_lengths(update);
  for (Func& func : out.define) {
    func.stored.clear();
    add_lengths(func);
    func.value = transform(func.value, [&](const Expr& e) {
      const auto* r = e.as<Reduce>();
      if (!r || !algorithm.lengths.contains(r->axis)) return e;
      return with_children(e, {select(within(algorithm, r->axis), r->body.front(), Expr(neutral(r->op)))});
    });
  }
  return out;
}

}  // namespace astatide
