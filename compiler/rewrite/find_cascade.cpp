#include <algorithm>

#include "compiler/rewrite/absent.h"
#include "compiler/rewrite/canonical_axes.h"
#include "compiler/rewrite/cascade.h"
#include "compiler/rewrite/cascade_axis.h"
#include "compiler/rewrite/expression_limit.h"
#include "compiler/rewrite/find_product.h"
#include "compiler/rewrite/fresh_names.h"
#include "compiler/rewrite/guard.h"
#include "compiler/rewrite/presence.h"
#include "compiler/rewrite/split_rows.h"

namespace astatide {

namespace {

std::string quote(const std::string& name) { return "'" + name + "'"; }

std::vector<Expr> conjuncts(const Expr& predicate) {
  if (!predicate.is_call(Op::logical_and)) return {predicate};
  std::vector<Expr> result = conjuncts(predicate.as<Call>()->args[0]);
  for (const Expr& e : conjuncts(predicate.as<Call>()->args[1])) result.push_back(e);
  return result;
}

bool has(const std::vector<Expr>& predicates, const Expr& e) {
  return std::find(predicates.begin(), predicates.end(), e) != predicates.end();
}

void add_new(std::vector<Expr>& predicates, const std::vector<Expr>& more) {
  for (const Expr& e : more) {
    if (!has(predicates, e)) predicates.push_back(e);
  }
}

/// A predicate of one of the values that an expression chooses between.
struct OneSided {
  Location where;
  std::string choice;
  Expr predicate;
};

/// A definition as far as the cascade needs it: what a read of it at its own indices stands for.
struct Resolved {
  Expr value;                    // over elements, stages, row constants
  std::vector<Expr> predicates;  // where the value is absent
  bool reads_reductions = false;
};

std::set<std::string> axes_of_definitions(const Algorithm& algorithm) {
  std::set<std::string> axes;
  for (const Func& func : algorithm.define) {
    axes.insert(func.indices.begin(), func.indices.end());
    visit(func.value, [&](const Expr& e) {
      if (const auto* r = e.as<Reduce>()) axes.insert(r->axis);
    });
  }
  return axes;
}

class CascadeFinder {
 public:
  explicit CascadeFinder(const Algorithm& algorithm) : algorithm_(algorithm), names_(names_of(algorithm)) {
    Diagnostics problems;
    cascade_.axis_extents = infer_axis_extents(algorithm, problems);
    problems.throw_if_any();
    // Axes of updates are none of what is reduced.
    const std::set<std::string> axes = axes_of_definitions(algorithm);
    std::erase_if(cascade_.axis_extents, [&](const auto& entry) { return !axes.contains(entry.first); });
    definitions_ = with_canonical_axes(needed_definitions(algorithm), infer_axis_lengths(algorithm, problems));
    for (const Func& func : definitions_) by_name_[func.name] = &func;
    cascade_.positive = positive_names(algorithm);
  }

  Cascade run() {
    cascade_.axis = find_cascade_axis(definitions_);
    for (const Func& func : definitions_) {
      if (is_needed_by_itself(func)) resolve(func);
    }
    split_rows(cascade_, output_axes());
    inline_elements_along_extra_axes();
    for (const Func& func : definitions_) add_value(func);
    drop_predicates_that_nothing_reads();
    GuardFacts facts = guard_facts(cascade_);
    for (Stage& stage : cascade_.stages) stage.term = guarded(stage.term, facts);
    for (RowValue& value : cascade_.values) value.value = guarded(value.value, facts);
    choose_absent_values(cascade_);
    return std::move(cascade_);
  }

 private:
  Location place_of(const Func& func, const Expr& e) const {
    Location where = func.where;
    if (e.line() == 0) return where;
    if (e.line() != where.line) where.text.clear();
    where.line = e.line();
    where.column = e.column();
    return where;
  }

  bool is_output(const std::string& name) const {
    return std::find(algorithm_.outputs.begin(), algorithm_.outputs.end(), name) != algorithm_.outputs.end();
  }

  /// Operands of products, such as a scaled K[b,h,j,d], are read in place and never become elements.
  bool is_needed_by_itself(const Func& func) const {
    if (is_output(func.name)) return true;
    bool reduces = false;
    visit(func.value, [&](const Expr& e) { reduces = reduces || e.as<Reduce>(); });
    return reduces;
  }

  std::vector<std::string> output_axes() const {
    std::vector<std::string> axes;
    for (const Func& func : definitions_) {
      if (!is_output(func.name)) continue;
      axes.insert(axes.end(), func.indices.begin(), func.indices.end());
    }
    return axes;
  }

  bool is_element(const std::string& name) const {
    return std::any_of(cascade_.elements.begin(), cascade_.elements.end(),
                       [&](const Element& element) { return element.name == name; });
  }
  bool is_stage(const std::string& name) const {
    return std::any_of(cascade_.stages.begin(), cascade_.stages.end(),
                       [&](const Stage& stage) { return stage.name == name; });
  }
  bool varies_along_axis(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name == cascade_.axis || is_element(name); });
  }
  bool reads_reductions(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_stage(name); });
  }

  // ---- definitions ----

  /// Everything but products is written in place of the read: for operands of products.
  Expr resolved_in_product(const Func& func, const Expr& e) {
    return transform_reads(e, [&](const Func& target, const Read& read, const Expr& at) {
      if (target.where_predicate) {
        throw UserError(place_of(func, at), "a product reads " + quote(target.name) + ", whose elements can be absent",
                        {"put the predicate on the definition that holds the product"});
      }
      const Expr value = resolved_in_product(target, target.value);
      check_expression_size(value, quote(target.name), target.where);
      return substitute(value, substitution(target, read));
    });
  }

  static std::map<std::string, Expr> substitution(const Func& target, const Read& read) {
    std::map<std::string, Expr> values;
    for (std::size_t i = 0; i < target.indices.size(); ++i) values.insert_or_assign(target.indices[i], read.indices[i]);
    return values;
  }

  static bool at_own_indices(const Func& target, const Read& read) {
    for (std::size_t i = 0; i < target.indices.size(); ++i) {
      if (!(read.indices[i] == variable(target.indices[i]))) return false;
    }
    return true;
  }

  Expr transform_reads(const Expr& e, const std::function<Expr(const Func&, const Read&, const Expr&)>& f) {
    return transform(e, [&](const Expr& node) {
      const auto* read = node.as<Read>();
      if (!read || !by_name_.contains(read->tensor)) return node;
      return f(*by_name_.at(read->tensor), *read, node);
    });
  }

  /// `e` of the definition `func` over elements, stages and row constants. Predicates of what it reads go to
  /// `predicates`.
  Expr resolve_expr(const Func& func, const Expr& e, std::vector<Expr>& predicates, bool whole) {
    if (const auto* r = e.as<Reduce>()) {
      if (r->axis != cascade_.axis) return product_element(func, e, *r);
      std::vector<Expr> inside;
      const std::size_t choices = one_sided_.size();
      const Expr term = resolve_expr(func, r->body[0], inside, false);
      check_choices(func, choices, inside);
      check_expression_size(term, "a reduction of " + quote(func.name), place_of(func, e));
      return stage_for(func, e, *r, with_presence(func, term, inside, r->op), whole);
    }
    if (const auto* read = e.as<Read>(); read && by_name_.contains(read->tensor)) {
      return resolve_read(func, *by_name_.at(read->tensor), *read, e, predicates);
    }
    if (e.is_call(Op::select) || e.is_call(Op::logical_and) || e.is_call(Op::logical_or)) {
      return resolve_choice(func, e, predicates);
    }
    std::vector<Expr> operands = children(e);
    for (Expr& operand : operands) operand = resolve_expr(func, operand, predicates, false);
    return with_children(e, std::move(operands));
  }

  /// The first operand decides which of the others count. Where one of them alone is absent the value is still there
  /// if another is chosen, and elements have no word for that: what all choices are absent under makes the value
  /// absent, and what only one is absent under something else in the definition has to.
  Expr resolve_choice(const Func& func, const Expr& e, std::vector<Expr>& predicates) {
    std::vector<Expr> operands = children(e);
    operands[0] = resolve_expr(func, operands[0], predicates, false);
    std::vector<Expr> always;  // of every choice; `and` and `or` may be decided by their first operand
    for (std::size_t i = 1; i < operands.size(); ++i) {
      std::vector<Expr> of_operand;
      operands[i] = resolve_expr(func, operands[i], of_operand, false);
      for (const Expr& predicate : of_operand) one_sided_.push_back({place_of(func, e), to_string(e), predicate});
      if (!e.is_call(Op::select)) continue;
      if (i > 1) std::erase_if(always, [&](const Expr& predicate) { return !has(of_operand, predicate); });
      if (i == 1) always = std::move(of_operand);
    }
    add_new(predicates, always);
    return with_children(e, std::move(operands));
  }

  /// Refuses what choices since number `first` left open and the predicates of the whole do not answer.
  void check_choices(const Func& func, std::size_t first, const std::vector<Expr>& predicates) {
    for (std::size_t n = first; n < one_sided_.size(); ++n)
      if (!has(predicates, one_sided_[n].predicate))
        throw UserError(one_sided_[n].where,
                        one_sided_[n].choice + " chooses between values of which only one can be absent",
                        {"put the predicate on " + quote(func.name) + " itself, so that it holds for every choice"});
    one_sided_.resize(first, {{}, {}, Expr(0)});
  }

  Expr resolve_read(const Func& func, const Func& target, const Read& read, const Expr& at,
                    std::vector<Expr>& predicates) {
    const Resolved& resolved = resolve(target);
    if (at_own_indices(target, read)) {
      add_new(predicates, resolved.predicates);
      return resolved.value;
    }
    const std::set<std::string> names = free_variables(resolved.value);
    const bool movable = std::none_of(names.begin(), names.end(),
                                      [&](const std::string& name) { return is_element(name) || is_stage(name); });
    if (!movable) {
      std::string own = target.name + "[";
      for (std::size_t i = 0; i < target.indices.size(); ++i) own += (i ? "," : "") + target.indices[i];
      throw UserError(
          place_of(func, at),
          to_string(at) + " is not read at its own indices " + own + "], so it belongs to another row or tile",
          {"define it at the indices at which it is read"});
    }
    const std::map<std::string, Expr> values = substitution(target, read);
    for (const Expr& predicate : resolved.predicates) add_new(predicates, {substitute(predicate, values)});
    return substitute(resolved.value, values);
  }

  const Resolved& resolve(const Func& func) {
    if (auto found = resolved_.find(func.name); found != resolved_.end()) return found->second;
    Resolved resolved;
    const std::size_t elements_before = cascade_.elements.size(), choices = one_sided_.size();
    resolved.value = resolve_expr(func, func.value, resolved.predicates, true);
    check_expression_size(resolved.value, quote(func.name), func.where);
    if (func.where_predicate) {
      std::vector<Expr> of_predicate;
      for (const Expr& e : conjuncts(*func.where_predicate)) {
        add_new(resolved.predicates, {resolve_expr(func, e, of_predicate, false)});
      }
      add_new(resolved.predicates, of_predicate);
    }
    check_choices(func, choices, resolved.predicates);
    resolved.reads_reductions = reads_reductions(resolved.value) ||
                                std::any_of(resolved.predicates.begin(), resolved.predicates.end(),
                                            [&](const Expr& predicate) { return reads_reductions(predicate); });
    const bool along_axis = std::find(func.indices.begin(), func.indices.end(), cascade_.axis) != func.indices.end();
    if (along_axis && !resolved.reads_reductions) resolved = as_element(func, resolved, elements_before);
    return resolved_.emplace(func.name, std::move(resolved)).first->second;
  }

  Resolved as_element(const Func& func, const Resolved& resolved, std::size_t elements_before) {
    const bool own_product = cascade_.elements.size() > elements_before && cascade_.elements.back().name == func.name;
    if (own_product) {
      Element& element = cascade_.elements.back();
      element.value = resolved.value;
      element.where_predicates = resolved.predicates;
    } else {
      Element element;
      element.name = func.name;
      element.indices = func.indices;
      element.value = resolved.value;
      element.where_predicates = resolved.predicates;
      element.where = func.where;
      cascade_.elements.push_back(std::move(element));
    }
    // The element itself carries its predicates; a reader takes them over so that an absent operand makes it absent.
    return {variable(func.name), resolved.predicates, false};
  }

  // ---- products ----

  Expr product_element(const Func& func, const Expr& e, const Reduce& r) {
    const auto products = r.op == Reduction::sum
                              ? find_products(r.axis, resolved_in_product(func, r.body[0]), cascade_.axis)
                              : std::nullopt;
    if (!products) {
      throw UserError(place_of(func, e),
                      quote(func.name) + " reduces over " + r.axis + " inside values along " + cascade_.axis + ": " +
                          to_string(e) + " is not a sum of products of a row's tile and a tile along " + cascade_.axis,
                      {"a reduction that is no such product needs an algorithm of its own"});
    }
    Expr sum(0);
    for (const ScaledProduct& scaled : *products) {
      sum = sum + variable(element_of_product(func, e, scaled.product)) * scaled.factor;
    }
    return sum;
  }

  std::string element_of_product(const Func& func, const Expr& e, const Product& product) {
    for (const Element& element : cascade_.elements) {
      const bool same = element.product && element.product->axis == product.axis &&
                        element.product->lhs == product.lhs && element.product->rhs == product.rhs;
      // Only a bare product can be read for another one: a definition's element holds what was made of the product.
      if (same && element.value == variable(element.name)) return element.name;
    }
    Element element;
    const bool takes_name = products_in(func) == 1 && !reads_reduction_over_axis(func) &&
                            std::find(func.indices.begin(), func.indices.end(), cascade_.axis) != func.indices.end();
    element.name = takes_name ? func.name : names_.fresh(func.name + "_product");
    for (const std::string& axis : func.indices) {
      if (axis != cascade_.axis || takes_name) element.indices.push_back(axis);
    }
    if (!takes_name) element.indices = axes_of_product(product);
    element.product = product;
    element.value = variable(element.name);
    element.where = place_of(func, e);
    cascade_.elements.push_back(element);
    return element.name;
  }

  std::vector<std::string> axes_of_product(const Product& product) const {
    std::set<std::string> names = free_variables(product.lhs);
    names.merge(free_variables(product.rhs));
    std::vector<std::string> axes;
    for (const std::string& axis : output_axes()) {
      const bool seen = std::find(axes.begin(), axes.end(), axis) != axes.end();
      if (names.contains(axis) && !seen && axis != cascade_.axis && axis != product.axis) axes.push_back(axis);
    }
    axes.push_back(cascade_.axis);
    return axes;
  }

  int products_in(const Func& func) const {
    int count = 0;
    visit(func.value, [&](const Expr& e) {
      const auto* r = e.as<Reduce>();
      count += r && r->axis != cascade_.axis ? 1 : 0;
    });
    return count;
  }

  bool reads_reduction_over_axis(const Func& func) const {
    bool found = false;
    visit(func.value, [&](const Expr& e) {
      const auto* r = e.as<Reduce>();
      found = found || (r && r->axis == cascade_.axis);
      if (const auto* read = e.as<Read>(); read && by_name_.contains(read->tensor)) {
        found = found || reads_reduction_over_axis(*by_name_.at(read->tensor));
      }
    });
    return found;
  }

  // ---- stages ----

  /// Elements carry their own predicates. A definition that reads a reduction carries its own by an element that is
  /// there, with a neutral value, exactly where the definition is; a predicate that itself reads a reduction, such as
  /// s == m, becomes a select.
  Expr with_presence(const Func& func, const Expr& of_present, const std::vector<Expr>& predicates, Reduction op) {
    Expr term = of_present;
    for (const Expr& predicate : predicates) {
      if (reads_reductions(predicate)) term = select(predicate, term, Expr(unit_of(op)));
    }
    std::vector<Expr> open;
    const std::set<std::string> names = free_variables(term);
    for (const Expr& predicate : predicates) {
      const bool carried = std::any_of(cascade_.elements.begin(), cascade_.elements.end(), [&](const Element& element) {
        const auto& own = element.where_predicates;
        return names.contains(element.name) && std::find(own.begin(), own.end(), predicate) != own.end();
      });
      if (!carried && !reads_reductions(predicate)) open.push_back(predicate);
    }
    if (open.empty()) return term;
    const int neutral = op == Reduction::sum ? 1 : 0;
    const Expr present = variable(presence_element(cascade_, names_, open, neutral, func.name, func.where));
    return op == Reduction::sum ? absorb(present, term) : term + present;
  }

  /// The reductions that softmax and logsumexp abbreviate stand in no file and have the names that the field gives
  /// them.
  static std::string made_name(const Func& func, const Expr& e, Reduction op) {
    if (e.line() == 0) return op == Reduction::sum ? "l" : "m";
    return func.name + "_" + std::string(name_of(op));
  }

  Expr stage_for(const Func& func, const Expr& e, const Reduce& r, const Expr& term, bool whole) {
    for (const Stage& stage : cascade_.stages) {
      if (stage.op == r.op && stage.term == term) return variable(stage.name);
    }
    Stage stage;
    stage.name = whole ? func.name : names_.fresh(made_name(func, e, r.op));
    stage.op = r.op;
    stage.term = term;
    stage.where = place_of(func, e);
    cascade_.stages.push_back(stage);
    return variable(stage.name);
  }

  // ---- what is left ----

  void inline_elements_along_extra_axes() {
    std::set<std::string> extra;
    for (const Stage& stage : cascade_.stages) extra.insert(stage.extra.begin(), stage.extra.end());
    for (std::size_t i = cascade_.elements.size(); i-- > 0;) {
      const Element element = cascade_.elements[i];
      const bool has_extra = std::any_of(element.indices.begin(), element.indices.end(),
                                         [&](const std::string& axis) { return extra.contains(axis); });
      if (!has_extra || element.product || !element.where_predicates.empty()) continue;
      const std::map<std::string, Expr> value{{element.name, element.value}};
      for (Element& other : cascade_.elements) other.value = substitute(other.value, value);
      for (Stage& stage : cascade_.stages) stage.term = substitute(stage.term, value);
      for (auto& [name, resolved] : resolved_) resolved.value = substitute(resolved.value, value);
      cascade_.elements.erase(cascade_.elements.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void add_value(const Func& func) {
    const auto found = resolved_.find(func.name);
    if (found == resolved_.end()) return;
    const Resolved& resolved = found->second;
    const bool output = is_output(func.name);
    if (!output && !resolved.reads_reductions) return;
    RowValue value;
    value.name = func.name;
    value.indices = func.indices;
    value.value = resolved.value;
    value.where_predicates = resolved.predicates;
    value.output = output;
    value.where = func.where;
    value.stored_at = func.stored;
    cascade_.values.push_back(std::move(value));
  }

  /// An element that no stage and no output reads directly holds what its readers turn into absent ones anyway.
  void drop_predicates_that_nothing_reads() {
    std::set<std::string> read;
    for (const Stage& stage : cascade_.stages) read.merge(free_variables(stage.term));
    for (const RowValue& value : cascade_.values) read.merge(free_variables(value.value));
    for (Element& element : cascade_.elements) {
      if (!read.contains(element.name)) element.where_predicates.clear();
    }
  }

  const Algorithm& algorithm_;
  FreshNames names_;
  std::vector<Func> definitions_;
  std::map<std::string, const Func*> by_name_;
  std::map<std::string, Resolved> resolved_;
  std::vector<OneSided> one_sided_;
  Cascade cascade_;
};

}  // namespace

Cascade find_cascade(const Algorithm& algorithm) { return CascadeFinder(algorithm).run(); }

}  // namespace astatide
