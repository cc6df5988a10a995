#include <algorithm>
#include <set>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

/// What gave an axis its extent.
struct Found {
  Expr extent;
  std::string source;
};

class AxisExtents {
 public:
  AxisExtents(const Algorithm& algorithm, Diagnostics& errors) : algorithm_(algorithm), errors_(errors) {
    for (const Func& func : algorithm.define) funcs_.emplace(func.name, &func);
    for (const Input& input : algorithm.inputs) inputs_.emplace(input.name, &input);
    for (const auto& [axis, extent] : algorithm.axes) found_.emplace(axis, Found{extent, "axes"});
  }

  std::map<std::string, Expr> infer() {
    // An axis may get its extent from a definition whose own axes are known only through a later one.
    std::size_t before = 0;
    do {
      before = found_.size();
      visit_reads(false);
    } while (found_.size() > before);
    // Fewer elements than the dimension has may be stored: it says how many there are only where nothing else does.
    for (const Func& update : algorithm_.updates)
      look_at_read(update, update.value, {update.name, update.stored}, false);
    visit_reads(true);
    report_unknown();
    std::map<std::string, Expr> out;
    for (const auto& [axis, found] : found_) out.emplace(axis, found.extent);
    return out;
  }

 private:
  void visit_reads(bool report) {
    for (const Func& update : algorithm_.updates) {
      visit_reads(update, report);
      for (const Expr& place : update.stored)
        visit(place, [&](const Expr& e) {
          if (const auto* r = e.as<Read>()) look_at_read(update, e, *r, report);
        });
    }
    for (const Func& func : algorithm_.define) visit_reads(func, report);
  }

  void visit_reads(const Func& func, bool report) {
    const auto look = [&](const Expr& e) {
      if (const auto* r = e.as<Read>()) look_at_read(func, e, *r, report);
    };
    visit(func.value, look);
    if (func.where_predicate) visit(*func.where_predicate, look);
  }

  /// Nothing where the read or the dimension is wrong, which is said elsewhere.
  std::optional<Expr> dimension(const Read& r, std::size_t position) const {
    if (const auto input = inputs_.find(r.tensor); input != inputs_.end()) {
      const std::vector<Expr>& dims = input->second->dims;
      if (dims.size() != r.indices.size() || !is_over_extents(dims[position])) return std::nullopt;
      return dims[position];
    }
    const auto func = funcs_.find(r.tensor);
    if (func == funcs_.end() || func->second->indices.size() != r.indices.size()) return std::nullopt;
    const auto found = found_.find(func->second->indices[position]);
    return found == found_.end() ? std::nullopt : std::optional(found->second.extent);
  }

  bool is_over_extents(const Expr& dim) const {
    const std::set<std::string> names = free_variables(dim);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return algorithm_.find_extent(name); });
  }

  /// Ends of items lie one beyond their beginnings: offset[b] and offset[b + 1] of an offset with B + 1 elements. Where
  /// `axes` says how long the axis is, the dimension may be longer.
  bool is_longer_by_a_number(const Expr& dim, const std::string& axis) const {
    const auto said = algorithm_.axes.find(axis);
    if (said == algorithm_.axes.end() || !dim.is_call(Op::add)) return false;
    const auto* more = dim.as<Call>()->args[1].as<Integer>();
    return more && more->value > 0 && dim.as<Call>()->args[0] == said->second;
  }

  void look_at_read(const Func& func, const Expr& e, const Read& r, bool report) {
    if (!inputs_.contains(r.tensor) && !funcs_.contains(r.tensor)) reads_unknown_ = true;
    for (std::size_t i = 0; i < r.indices.size(); ++i) {
      const auto* v = r.indices[i].as<Variable>();
      if (!v || algorithm_.find_extent(v->name) || algorithm_.find_scalar(v->name)) continue;
      const auto extent = dimension(r, i);
      if (!extent) continue;
      const Found& known = found_.emplace(v->name, Found{*extent, r.tensor}).first->second;
      if (!report || known.extent == *extent || is_longer_by_a_number(*extent, v->name) ||
          !reported_.insert(v->name + " " + r.tensor).second)
        continue;
      const std::string& source = known.source;
      errors_.error(place_in(func.where, r.indices[i].line() > 0 ? r.indices[i] : e),
                    "axis " + v->name + " is " + print_expr(known.extent, {}, true) + " in " + source + " and " +
                        print_expr(*extent, {}, true) + " in " + r.tensor,
                    {"an axis has one extent in all definitions; give one of the two another name"});
    }
  }

  void report_unknown() {
    // What can't be found might have given the extent.
    if (reads_unknown_) return;
    const auto report_of = [&](const Func& func) {
      std::vector<std::string> axes = func.indices;
      visit(func.value, [&](const Expr& e) {
        if (const auto* r = e.as<Reduce>()) axes.push_back(r->axis);
      });
      for (const std::string& axis : axes)
        if (!found_.contains(axis) && reported_.insert(axis).second)
          errors_.error(
              func.where,
              "axis " + quoted(axis) + " of " + func.name + " has no extent: it indexes no dimension by itself",
              {"say it with axes: {" + quoted(axis) + ": EXTENT}"});
    };
    for (const Func& update : algorithm_.updates) report_of(update);
    for (const Func& func : algorithm_.define) report_of(func);
  }

  const Algorithm& algorithm_;
  Diagnostics& errors_;
  std::map<std::string, Found> found_;
  std::set<std::string> reported_;
  std::map<std::string, const Func*> funcs_;
  std::map<std::string, const Input*> inputs_;
  bool reads_unknown_ = false;
};

}  // namespace

std::map<std::string, Expr> infer_axis_extents(const Algorithm& algorithm, Diagnostics& errors) {
  return AxisExtents(algorithm, errors).infer();
}

}  // namespace astatide
