#include "compiler/rewrite/split_rows.h"

#include <algorithm>
#include <iterator>

namespace astatide {

namespace {

using Axes = std::set<std::string>;

void collect_factors(const Expr& e, std::vector<Expr>& factors) {
  if (e.is_call(Op::mul) || e.is_call(Op::div) || e.is_call(Op::absorb) || e.is_call(Op::neg)) {
    for (const Expr& operand : children(e)) collect_factors(operand, factors);
  } else {
    factors.push_back(e);
  }
}

class RowSplitter {
 public:
  explicit RowSplitter(Cascade& cascade) : cascade_(cascade) {}

  void run(const std::vector<std::string>& preferred) {
    find_axes_of_elements();
    Axes rows;
    for (const Stage& stage : cascade_.stages) {
      const Axes all = axes_of(stage.term);
      axes_[stage.name] = all;
      const Axes extra = extra_of(stage.term);
      extra_[stage.name] = extra;
      std::set_difference(all.begin(), all.end(), extra.begin(), extra.end(), std::inserter(rows, rows.end()));
    }
    for (Stage& stage : cascade_.stages) {
      for (const std::string& axis : ordered(axes_[stage.name], preferred)) {
        if (!rows.contains(axis)) stage.extra.push_back(axis);
      }
    }
    cascade_.rows = ordered(rows, preferred);
  }

 private:
  static std::vector<std::string> ordered(const Axes& axes, const std::vector<std::string>& preferred) {
    std::vector<std::string> result;
    for (const std::string& axis : preferred) {
      const bool seen = std::find(result.begin(), result.end(), axis) != result.end();
      if (axes.contains(axis) && !seen) result.push_back(axis);
    }
    for (const std::string& axis : axes) {
      if (std::find(result.begin(), result.end(), axis) == result.end()) result.push_back(axis);
    }
    return result;
  }

  /// Axes on which each element depends, with the cascade's axis; the contracted one is gone when the element is there.
  void find_axes_of_elements() {
    for (const Element& element : cascade_.elements) {
      Axes axes = depends_on(element.value);
      for (const Expr& predicate : element.where_predicates) axes.merge(depends_on(predicate));
      if (element.product) {
        Axes of_product = depends_on(element.product->lhs);
        of_product.merge(depends_on(element.product->rhs));
        of_product.erase(element.product->axis);
        axes.merge(of_product);
      }
      element_axes_[element.name] = axes;
    }
  }

  Axes depends_on(const Expr& e) const {
    Axes axes;
    for (const std::string& name : free_variables(e)) {
      if (auto stage = axes_.find(name); stage != axes_.end()) {
        axes.insert(stage->second.begin(), stage->second.end());
      } else if (auto element = element_axes_.find(name); element != element_axes_.end()) {
        axes.insert(element->second.begin(), element->second.end());
      } else if (cascade_.axis_extents.contains(name)) {
        axes.insert(name);
      }
    }
    return axes;
  }

  Axes axes_of(const Expr& e) const {
    Axes axes = depends_on(e);
    axes.erase(cascade_.axis);
    return axes;
  }

  bool varies_along_axis(const Expr& e) const { return depends_on(e).contains(cascade_.axis); }

  /// A read of an input, or an element that is one.
  bool is_read(const Expr& e) const {
    if (e.as<Read>()) return true;
    const auto* v = e.as<Variable>();
    return v && std::any_of(cascade_.elements.begin(), cascade_.elements.end(), [&](const Element& element) {
             return element.name == v->name && !element.product && element.value.as<Read>();
           });
  }

  Axes extra_of(const Expr& term) const {
    std::vector<Expr> factors;
    collect_factors(term, factors);
    for (const bool only_reads : {true, false}) {
      for (std::size_t i = factors.size(); i-- > 0;) {
        if (is_read(factors[i]) != only_reads || !varies_along_axis(factors[i])) continue;
        Axes others;
        bool others_vary = false, reads_stage = false;
        for (std::size_t k = 0; k < factors.size(); ++k) {
          if (k == i) continue;
          others.merge(axes_of(factors[k]));
          others_vary = others_vary || varies_along_axis(factors[k]);
          const std::set<std::string> names = free_variables(factors[k]);
          reads_stage = reads_stage || std::any_of(axes_.begin(), axes_.end(),
                                                   [&](const auto& stage) { return names.contains(stage.first); });
        }
        Axes extra;
        const Axes own = axes_of(factors[i]);
        std::set_difference(own.begin(), own.end(), others.begin(), others.end(), std::inserter(extra, extra.end()));
        // In sum(j, s[i,j] * v[j]) it is the row that only one read has; the other factor must belong to a row of its
        // own.
        if (!extra.empty() && others_vary && (!others.empty() || reads_stage)) return extra;
      }
    }
    return {};
  }

  Cascade& cascade_;
  std::map<std::string, Axes> axes_, extra_, element_axes_;
};

}  // namespace

void split_rows(Cascade& cascade, const std::vector<std::string>& preferred) { RowSplitter(cascade).run(preferred); }

}  // namespace astatide
