#include "compiler/visible.h"

#include <algorithm>
#include <set>

#include "compiler/algorithm/factors.h"
#include "compiler/count_places.h"
#include "compiler/support/contains.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

using Conjunction = std::vector<Expr>;

void add(Conjunction& to, const Conjunction& more) {
  for (const Expr& predicate : more)
    if (!contains(to, predicate)) to.push_back(predicate);
}

Conjunction both(Conjunction a, const Conjunction& b) {
  add(a, b);
  std::sort(a.begin(), a.end());
  return a;
}

/// What is weaker than another conjunction holds in its place.
void add(std::vector<Conjunction>& to, const Conjunction& one) {
  const auto implies = [](const Conjunction& a, const Conjunction& b) {
    return std::all_of(b.begin(), b.end(), [&](const Expr& predicate) { return contains(a, predicate); });
  };
  if (std::any_of(to.begin(), to.end(), [&](const Conjunction& other) { return implies(one, other); })) return;
  std::erase_if(to, [&](const Conjunction& other) { return implies(other, one); });
  to.push_back(one);
}

bool reads_elements(const Expr& factor) {
  bool any = false;
  visit(factor, [&](const Expr& e) { any = any || e.as<Read>() != nullptr; });
  return any;
}

bool is_product(const Reduce& reduction) {
  if (reduction.op != Reduction::sum) return false;
  const std::vector<Expr> factors = factors_of(reduction.body[0]);
  return std::count_if(factors.begin(), factors.end(), reads_elements) > 1;
}

class Analysis {
 public:
  explicit Analysis(const Algorithm& algorithm) : algorithm_(algorithm) {
    for (const Func& func : algorithm.define) {
      Conjunction& present = present_[func.name];
      add(present, within(func.indices));
      if (func.where_predicate) add(present, {*func.where_predicate});
      add(present, present_in(func.value));
      std::sort(present.begin(), present.end());
    }
    for (const std::string& output : algorithm.outputs) needed_[output] = {present_.at(output)};
    // A definition reads those before it.
    for (auto func = algorithm.define.rbegin(); func != algorithm.define.rend(); ++func)
      for (const Conjunction& needed : needed_[func->name])
        ask(func->value, both(needed, present_.at(func->name)), *func, func->indices);
  }

  std::vector<CountedProduct> take() { return std::move(products_); }

 private:
  /// Elements that ragged axes have.
  Conjunction within(const std::vector<std::string>& axes) const {
    Conjunction out;
    for (const std::string& axis : axes)
      if (const auto length = algorithm_.lengths.find(axis); length != algorithm_.lengths.end())
        out.push_back(less(variable(axis), length->second));
    return out;
  }

  const Func* definition_of(const Read& read) const { return algorithm_.find_func(read.tensor); }

  /// Where an expression is present: an absent element that it reads makes it absent, reductions leave such out.
  Conjunction present_in(const Expr& e) const {
    Conjunction out;
    if (const auto* reduction = e.as<Reduce>(); reduction && reduction->op != Reduction::softmax) return out;
    if (const auto* r = e.as<Read>())
      if (const Func* func = definition_of(*r)) {
        std::map<std::string, Expr> at;
        for (std::size_t n = 0; n < func->indices.size(); ++n) at.emplace(func->indices[n], r->indices[n]);
        for (const Expr& predicate : present_.at(func->name)) add(out, {substitute(predicate, at)});
      }
    for (const Expr& child : children(e)) add(out, present_in(child));
    return out;
  }

  /// An expression is needed at the places of `axes` where `where` holds; so is what it reads.
  void ask(const Expr& e, const Conjunction& where, const Func& func, const std::vector<std::string>& axes) {
    if (const auto* r = e.as<Read>())
      if (const Func* read = definition_of(*r)) ask_read(*r, *read, where, axes);
    const auto* reduction = e.as<Reduce>();
    if (!reduction) {
      for (const Expr& child : children(e)) ask(child, where, func, axes);
      return;
    }
    // A softmax needs its whole row, wherever along it its value is asked for.
    Conjunction outside;
    for (const Expr& predicate : where)
      if (!free_variables(predicate).contains(reduction->axis)) outside.push_back(predicate);
    std::vector<std::string> inside = axes;
    if (!contains(inside, reduction->axis)) inside.push_back(reduction->axis);
    const Conjunction term = both(both(outside, within({reduction->axis})), present_in(reduction->body[0]));
    if (is_product(*reduction)) add_product(e, func, inside, term);
    ask(reduction->body[0], term, func, inside);
  }

  void ask_read(const Read& read, const Func& func, const Conjunction& where, const std::vector<std::string>& axes) {
    std::map<std::string, Expr> back;
    bool as_it_is = true;
    for (std::size_t n = 0; n < func.indices.size(); ++n) {
      const auto* name = read.indices[n].as<Variable>();
      as_it_is =
          as_it_is && name && contains(axes, name->name) && back.emplace(name->name, variable(func.indices[n])).second;
    }
    Conjunction own;
    for (const Expr& predicate : where) {
      const std::set<std::string> names = free_variables(predicate);
      as_it_is = as_it_is && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
                   return back.contains(name) || !contains(axes, name);
                 });
      if (as_it_is) own.push_back(substitute(predicate, back));
    }
    if (!as_it_is) own.clear();
    add(needed_[func.name], both(own, {}));
  }

  void add_product(const Expr& sum, const Func& func, const std::vector<std::string>& axes, const Conjunction& where) {
    for (CountedProduct& known : products_)
      if (known.definition == func.name && known.sum == sum) return add(known.needed, where);
    products_.push_back({func.name, sum, axes, {where}});
  }

  const Algorithm& algorithm_;
  std::map<std::string, Conjunction> present_;
  std::map<std::string, std::vector<Conjunction>> needed_;
  std::vector<CountedProduct> products_;
};

}  // namespace

std::vector<CountedProduct> products_of(const Algorithm& algorithm) { return Analysis(algorithm).take(); }

std::vector<std::string> inputs_of_masks(const Algorithm& algorithm) {
  std::set<std::string> names;
  for (const CountedProduct& product : products_of(algorithm))
    for (const Conjunction& needed : product.needed)
      for (const Expr& predicate : needed) names.merge(tensors_read(predicate));
  std::vector<std::string> out;
  for (const Input& input : algorithm.inputs)
    if (names.contains(input.name)) out.push_back(input.name);
  return out;
}

VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         const InputValues& inputs) {
  Diagnostics errors;
  const std::map<std::string, Expr> lengths = infer_axis_extents(algorithm, errors);
  errors.throw_if_any();
  VisibleWork out;
  out.visible = 0;
  // Products of one cascade have their masks in common.
  std::map<std::pair<std::vector<Conjunction>, std::map<std::string, std::int64_t>>, double> known;
  for (const CountedProduct& product : products_of(algorithm)) {
    Places places{{}, extents, &algorithm, &inputs};
    double all = 1, others = 1;
    std::set<std::string> names;
    for (const Conjunction& needed : product.needed)
      for (const Expr& predicate : needed) names.merge(free_variables(predicate));
    for (const std::string& axis : product.axes) {
      const std::int64_t length = std::max<std::int64_t>(0, evaluate_integer(lengths.at(axis), extents));
      all *= static_cast<double>(length);
      if (names.contains(axis))
        places.axes[axis] = length;
      else
        others *= static_cast<double>(length);
    }
    out.all += 2 * all;
    if (!out.visible) continue;
    const auto key = std::pair(product.needed, places.axes);
    auto count = known.find(key);
    if (count == known.end()) {
      const auto counted = count_places(places, product.needed);
      if (const auto* why_not = std::get_if<std::string>(&counted)) {
        out.visible.reset();
        out.why_not = *why_not;
        continue;
      }
      count = known.emplace(key, std::get<double>(counted)).first;
    }
    *out.visible += 2 * others * count->second;
  }
  return out;
}

}  // namespace astatide
