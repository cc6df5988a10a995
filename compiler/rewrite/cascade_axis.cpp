#include "compiler/rewrite/cascade_axis.h"

#include <algorithm>
#include <map>
#include <optional>

namespace astatide {

namespace {

class AxisFinder {
 public:
  explicit AxisFinder(const std::vector<Func>& definitions) : definitions_(definitions) {
    for (const Func& func : definitions) by_name_[func.name] = &func;
  }

  std::string run() {
    for (const Func& func : definitions_) {
      visit(func.value, [&](const Expr& e) {
        if (const auto* r = e.as<Reduce>()) look_at(func, e, *r);
      });
    }
    if (first_.empty()) {
      throw UserError(definitions_.back().where, "no output reduces over an axis, so there is nothing to stream over");
    }
    std::vector<std::string> top;
    for (const std::string& axis : order_) {
      const bool inside = std::any_of(inner_.begin(), inner_.end(), [&](const auto& entry) {
        return entry.first != axis && entry.second.contains(axis);
      });
      if (!inside) top.push_back(axis);
    }
    if (top.size() != 1) refuse(top.empty() ? order_ : top);
    for (const Func& func : definitions_) check_row_reductions(func, top[0]);
    return top[0];
  }

 private:
  void look_at(const Func& func, const Expr& e, const Reduce& r) {
    if (first_.emplace(r.axis, Place{&func, e}).second) order_.push_back(r.axis);
    std::set<std::string>& inner = inner_[r.axis];
    for (const std::string& axis : axes_in(r.body[0])) inner.insert(axis);
  }

  /// All axes over which something inside is reduced, through definitions too.
  std::set<std::string> axes_in(const Expr& e) {
    std::set<std::string> axes;
    visit(e, [&](const Expr& node) {
      if (const auto* r = node.as<Reduce>()) axes.insert(r->axis);
      const auto* read = node.as<Read>();
      if (read && by_name_.contains(read->tensor)) axes.merge(axes_of(*by_name_.at(read->tensor)));
    });
    return axes;
  }

  std::set<std::string> axes_of(const Func& func) {
    auto found = memo_.find(func.name);
    if (found == memo_.end()) found = memo_.emplace(func.name, axes_in(func.value)).first;
    return found->second;
  }

  /// A value that does not vary along the cascade's axis is no element, so it must not be reduced over another axis.
  void check_row_reductions(const Func& func, const std::string& axis) {
    if (std::find(func.indices.begin(), func.indices.end(), axis) != func.indices.end()) return;
    check_row_reductions(func, func.value, axis);
  }

  void check_row_reductions(const Func& func, const Expr& e, const std::string& axis) {
    const auto* r = e.as<Reduce>();
    if (r && r->axis == axis) return;
    if (r) refuse_row_reduction(func, *r, axis);
    for (const Expr& child : children(e)) check_row_reductions(func, child, axis);
  }

  [[noreturn]] void refuse_row_reduction(const Func& func, const Reduce& r, const std::string& axis) {
    for (const Func& reader : definitions_) {
      std::optional<Expr> found;
      visit(reader.value, [&](const Expr& e) {
        const auto* outer = e.as<Reduce>();
        if (!found && outer && outer->axis == axis && reads(outer->body[0], func.name)) found = e;
      });
      if (!found) continue;
      throw UserError(place_of(reader, *found),
                      "stage '" + reader.name + "' reduces over " + axis + " but reads '" + func.name +
                          "', which reduces over " + r.axis + "; stages of one cascade must share the axis",
                      {"give the reductions one axis name, or make two algorithms"});
    }
    refuse({axis, r.axis});
  }

  bool reads(const Expr& e, const std::string& name) {
    bool found = false;
    visit(e, [&](const Expr& node) {
      const auto* read = node.as<Read>();
      if (!read || !by_name_.contains(read->tensor)) return;
      found = found || read->tensor == name || reads(by_name_.at(read->tensor)->value, name);
    });
    return found;
  }

  static Location place_of(const Func& func, const Expr& e) {
    Location where = func.where;
    if (e.line() == 0) return where;
    if (e.line() != where.line) where.text.clear();
    where.line = e.line();
    where.column = e.column();
    return where;
  }

  [[noreturn]] void refuse(const std::vector<std::string>& axes) {
    const Place& last = first_.at(axes.back());
    const Place& other = first_.at(axes.front());
    const Location where = place_of(*last.func, last.e);
    const auto name = [](const Place& place) { return "'" + place.func->name + "'"; };
    std::string message;
    if (axes_in(last.func->value).contains(axes.front()) && last.func != other.func) {
      message = "stage " + name(last) + " reduces over " + axes.back() + " but reads " + name(other) +
                ", which reduces over " + axes.front() + "; stages of one cascade must share the axis";
    } else {
      message = "the outputs need reductions over " + axes.front() + " (in " + name(other) + ") and over " +
                axes.back() + " (in " + name(last) + "); stages of one cascade must share the axis";
    }
    throw UserError(where, message, {"give the reductions one axis name, or make two algorithms"});
  }

  struct Place {
    const Func* func;
    Expr e;
  };

  const std::vector<Func>& definitions_;
  std::map<std::string, const Func*> by_name_;
  std::map<std::string, std::set<std::string>> memo_;
  std::map<std::string, std::set<std::string>> inner_;
  std::map<std::string, Place> first_;
  std::vector<std::string> order_;
};

bool is_positive(const Expr& e, const std::set<std::string>& positive) {
  if (const auto* n = e.as<Number>()) return n->value > 0;
  if (const auto* i = e.as<Integer>()) return i->value > 0;
  if (const auto* v = e.as<Variable>()) return positive.contains(v->name);
  const auto* c = e.as<Call>();
  if (!c) return false;
  switch (c->op) {
    case Op::exp:
    case Op::exp2:
    case Op::sigmoid:
      return true;
    case Op::add:
    case Op::mul:
    case Op::div:
    case Op::min:
      return is_positive(c->args[0], positive) && is_positive(c->args[1], positive);
    case Op::max:
      return is_positive(c->args[0], positive) || is_positive(c->args[1], positive);
    case Op::sqrt:
    case Op::pow:
      return is_positive(c->args[0], positive);
    default:
      return false;
  }
}

}  // namespace

std::vector<Func> needed_definitions(const Algorithm& algorithm) {
  std::set<std::string> needed(algorithm.outputs.begin(), algorithm.outputs.end());
  std::vector<Func> definitions;
  for (std::size_t i = algorithm.define.size(); i-- > 0;) {
    const Func& func = algorithm.define[i];
    if (!needed.contains(func.name)) continue;
    needed.merge(tensors_read(func.value));
    if (func.where_predicate) needed.merge(tensors_read(*func.where_predicate));
    definitions.push_back(func);
  }
  std::reverse(definitions.begin(), definitions.end());
  return definitions;
}

std::string find_cascade_axis(const std::vector<Func>& definitions) { return AxisFinder(definitions).run(); }

std::set<std::string> positive_names(const Algorithm& algorithm) {
  std::set<std::string> positive;
  for (const Extent& extent : algorithm.extents) positive.insert(extent.name);
  for (const Scalar& scalar : algorithm.scalars) {
    if (scalar.default_value && is_positive(*scalar.default_value, positive)) positive.insert(scalar.name);
  }
  return positive;
}

}  // namespace astatide
