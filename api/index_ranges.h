#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/check_reads.h"
#include "api/host_integers.h"
#include "runtime/stub/astatide_launch_rules.h"

// Which values an index has in one launch. Not an interface of the library.

namespace astatide {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Doubles: exact for every index that a tensor can have; beyond 2^53 only the verdict matters.
struct Range {
  double least = -kInfinity, most = kInfinity;

  bool is_known() const { return std::isfinite(least) && std::isfinite(most); }
};

inline Range sorted(double a, double b) { return {std::min(a, b), std::max(a, b)}; }

/// A value that is linear in the axes: coefficients and a constant.
struct Affine {
  std::map<std::string, double> factors;
  double constant = 0;

  void add(const Affine& other, double times) {
    for (const auto& [name, factor] : other.factors) factors[name] += times * factor;
    constant += times * other.constant;
  }
};

/// What names stand for in one launch, at one place of some axes.
class IndexRanges {
 public:
  IndexRanges(const ReadSites& reads, const Extents& extents, const HostIntegers& data)
      : reads_(reads), extents_(extents), data_(data) {
    for (const auto& [axis, extent] : reads.axis_extents)
      axes_[axis] = {0, static_cast<double>(evaluate_integer(extent, extents)) - 1};
  }

  std::int64_t length_of(const std::string& axis) const { return static_cast<std::int64_t>(axes_.at(axis).most) + 1; }
  void set_place(const std::string& axis, std::int64_t place) {
    axes_[axis] = {static_cast<double>(place), static_cast<double>(place)};
  }
  /// Of an axis that is at one place.
  std::int64_t place_of(const std::string& axis) const { return static_cast<std::int64_t>(axes_.at(axis).least); }
  /// The axes whose places the value of data in an expression depends on, with those that their lengths depend on.
  std::set<std::string> axes_of_data(const Expr& e, const std::vector<std::string>& axes) const {
    std::set<std::string> out;
    const auto add = [&](const Expr& read_from) {
      visit(read_from, [&](const Expr& node) {
        if (const auto* r = node.as<Read>())
          for (const Expr& index : r->indices)
            for (const std::string& name : free_variables(index))
              if (axes_.contains(name)) out.insert(name);
      });
    };
    add(e);
    for (const std::string& axis : axes)
      if (const auto length = reads_.axis_lengths.find(axis); length != reads_.axis_lengths.end()) add(length->second);
    return out;
  }
  /// Shortens ragged axes to what they have at this place, if it is known; false where one has not got the place.
  bool shorten(const std::vector<std::string>& axes) {
    for (const std::string& axis : axes) {
      const auto length = reads_.axis_lengths.find(axis);
      if (length == reads_.axis_lengths.end()) continue;
      const Range of = range_of(length->second);
      if (of.is_known()) axes_[axis].most = std::min(axes_[axis].most, of.most - 1);
      if (axes_[axis].most < axes_[axis].least) return false;
    }
    return true;
  }
  /// Whether a condition keeps an element from being read wherever the axes are, as far as ranges tell. Where every
  /// axis that it reads is at one place they tell.
  bool excludes(const ReadSite& site) const {
    const std::vector<Affine> ends = ends_of(site);
    return std::any_of(site.predicates.begin(), site.predicates.end(),
                       [&](const Expr& e) { return !truth_of(e).can_hold; }) ||
           std::any_of(ends.begin(), ends.end(), [&](const Affine& end) { return range_of(end).most < 0; });
  }
  Range value_of(const Expr& e) const { return range_of(e); }

  bool is_empty(const std::vector<std::string>& axes) const {
    return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
      const auto range = axes_.find(axis);
      return range != axes_.end() && range->second.most < 0;
    });
  }

  /// Where conditions let it be read.
  Range range_of(const ReadSite& site) const {
    Range range = range_of(site.index);
    const std::optional<Affine> value = affine(site.index);
    if (!value) return range;
    for (const Expr& predicate : site.predicates)
      for (const Affine& condition : conditions(predicate)) narrow(range, *value, condition);
    for (const Affine& end : ends_of(site)) narrow(range, *value, end);
    return range;
  }

 private:
  Range range_of(const Expr& e) const {
    if (const auto* n = e.as<Integer>()) return {static_cast<double>(n->value), static_cast<double>(n->value)};
    if (const auto* v = e.as<Variable>()) return range_of_name(v->name);
    if (const auto* r = e.as<Read>()) {
      if (!data_.contains(r->tensor)) return {};
      if (const auto value = value_of(*r)) return {static_cast<double>(*value), static_cast<double>(*value)};
      const auto [known, added] = ranges_->try_emplace(r->tensor);
      if (added) known->second = data_range(data_.at(r->tensor));
      return {static_cast<double>(known->second.first), static_cast<double>(known->second.second)};
    }
    const auto* c = e.as<Call>();
    if (c == nullptr) return {};
    std::vector<Range> args;
    for (const Expr& arg : c->args) args.push_back(range_of(arg));
    return range_of_call(c->op, args);
  }

  struct Truth {
    bool can_hold = true, can_fail = true;
  };
  Truth truth_of(const Expr& predicate) const {
    if (const auto* r = predicate.as<Read>()) {
      const auto value = value_of(*r);
      return value ? Truth{*value != 0, *value == 0} : Truth{};
    }
    const auto* c = predicate.as<Call>();
    if (c == nullptr) return {};
    if (c->op == Op::logical_not) {
      const Truth of = truth_of(c->args[0]);
      return {of.can_fail, of.can_hold};
    }
    if (c->args.size() != 2) return {};
    if (c->op == Op::logical_and || c->op == Op::logical_or) {
      const Truth a = truth_of(c->args[0]), b = truth_of(c->args[1]);
      if (c->op == Op::logical_and) return {a.can_hold && b.can_hold, a.can_fail || b.can_fail};
      return {a.can_hold || b.can_hold, a.can_fail && b.can_fail};
    }
    const Range d = difference(c->args[0], c->args[1]);
    switch (c->op) {
      case Op::lt:
        return {d.least < 0, d.most >= 0};
      case Op::le:
        return {d.least <= 0, d.most > 0};
      case Op::gt:
        return {d.most > 0, d.least <= 0};
      case Op::ge:
        return {d.most >= 0, d.least < 0};
      case Op::eq:
        return {d.least <= 0 && d.most >= 0, d.least != 0 || d.most != 0};
      case Op::ne:
        return {d.least != 0 || d.most != 0, d.least <= 0 && d.most >= 0};
      default:
        return {};
    }
  }

  /// Conditions that end an axis of the site's tiles.
  std::vector<Affine> ends_of(const ReadSite& site) const {
    std::vector<Affine> out;
    for (const Expr& predicate : site.ends)
      for (Affine& condition : conditions(predicate)) {
        const bool ends = std::any_of(site.tile_axes.begin(), site.tile_axes.end(), [&](const std::string& axis) {
          const auto factor = condition.factors.find(axis);
          return factor != condition.factors.end() && factor->second < 0;
        });
        if (ends) out.push_back(std::move(condition));
      }
    return out;
  }

  Range difference(const Expr& a, const Expr& b) const {
    const std::optional<Affine> first = affine(a), second = affine(b);
    if (first && second) {
      Affine both = *first;
      both.add(*second, -1);
      return range_of(both);
    }
    const Range x = range_of(a), y = range_of(b);
    return {x.least - y.most, x.most - y.least};
  }

  /// Of a read at one place.
  std::optional<std::int64_t> value_of(const Read& r) const {
    const auto given = data_.find(r.tensor);
    if (given == data_.end() || given->second.shape.size() != r.indices.size()) return std::nullopt;
    std::vector<std::int64_t> index;
    for (const Expr& e : r.indices) {
      const Range range = range_of(e);
      if (!range.is_known() || range.least != range.most) return std::nullopt;
      index.push_back(static_cast<std::int64_t>(range.least));
    }
    return integer_at(given->second, index);
  }

  /// By the same functions that exported code checks its indices with.
  static Range range_of_call(Op op, const std::vector<Range>& args) {
    const auto c = [&](std::size_t n) { return astatide_of(args[n].least, args[n].most); };
    const auto range = [](astatide_range r) { return Range{r.least, r.most}; };
    switch (op) {
      case Op::select:
        return range(astatide_range_either(c(1), c(2)));
      case Op::min:
        return range(astatide_range_min(c(0), c(1)));
      case Op::max:
        return range(astatide_range_max(c(0), c(1)));
      case Op::mod:
        return range(astatide_range_mod(c(0), c(1)));
      case Op::neg:
        return range(astatide_range_neg(c(0)));
      case Op::abs:
        return range(astatide_range_abs(c(0)));
      case Op::add:
        return range(astatide_range_add(c(0), c(1)));
      case Op::sub:
        return range(astatide_range_sub(c(0), c(1)));
      case Op::mul:
        return range(astatide_range_mul(c(0), c(1)));
      case Op::floor_div:
        return range(astatide_range_floor_div(c(0), c(1)));
      default:
        return {};
    }
  }

  Range range_of_name(const std::string& name) const {
    if (const auto extent = extents_.find(name); extent != extents_.end())
      return {static_cast<double>(extent->second), static_cast<double>(extent->second)};
    const auto axis = axes_.find(name);
    return axis == axes_.end() ? Range{} : axis->second;
  }

  std::optional<Affine> affine(const Expr& e) const {
    if (const auto* n = e.as<Integer>()) return Affine{{}, static_cast<double>(n->value)};
    if (const auto* v = e.as<Variable>()) {
      if (const auto extent = extents_.find(v->name); extent != extents_.end())
        return Affine{{}, static_cast<double>(extent->second)};
      return Affine{{{v->name, 1}}, 0};
    }
    if (const auto* r = e.as<Read>()) {
      const auto value = value_of(*r);
      return value ? std::optional(Affine{{}, static_cast<double>(*value)}) : std::nullopt;
    }
    const auto* c = e.as<Call>();
    if (c == nullptr) return std::nullopt;
    if (c->op != Op::add && c->op != Op::sub && c->op != Op::neg && c->op != Op::mul) {
      const Range at_place = range_of(e);
      if (!at_place.is_known() || at_place.least != at_place.most) return std::nullopt;
      return Affine{{}, at_place.least};
    }
    std::vector<Affine> args;
    for (const Expr& arg : c->args) {
      const std::optional<Affine> value = affine(arg);
      if (!value) return std::nullopt;
      args.push_back(*value);
    }
    Affine out;
    if (c->op == Op::add || c->op == Op::sub) {
      out = args[0];
      out.add(args[1], c->op == Op::add ? 1 : -1);
      return out;
    }
    if (c->op == Op::neg) {
      out.add(args[0], -1);
      return out;
    }
    if (!args[0].factors.empty()) std::swap(args[0], args[1]);
    if (!args[0].factors.empty()) return std::nullopt;
    out.add(args[1], args[0].constant);
    return out;
  }

  /// Values that are 0 or more where a predicate holds; those of other forms say nothing.
  std::vector<Affine> conditions(const Expr& predicate) const {
    std::vector<Affine> out;
    const auto* c = predicate.as<Call>();
    if (c == nullptr) return out;
    if (c->op == Op::logical_and) {
      for (const Expr& part : c->args)
        for (Affine& condition : conditions(part)) out.push_back(std::move(condition));
      return out;
    }
    if (c->args.size() != 2) return out;
    const std::optional<Affine> a = affine(c->args[0]);
    const std::optional<Affine> b = affine(c->args[1]);
    if (!a || !b) return out;
    const auto not_less = [&](const Affine& more, const Affine& less, double by) {
      Affine difference = more;
      difference.add(less, -1);
      difference.constant -= by;
      out.push_back(std::move(difference));
    };
    if (c->op == Op::le || c->op == Op::lt || c->op == Op::eq) not_less(*b, *a, c->op == Op::lt ? 1 : 0);
    if (c->op == Op::ge || c->op == Op::gt || c->op == Op::eq) not_less(*a, *b, c->op == Op::gt ? 1 : 0);
    return out;
  }

  Range range_of(const Affine& value) const {
    Range out{value.constant, value.constant};
    for (const auto& [name, factor] : value.factors) {
      if (factor == 0) continue;
      const Range axis = range_of_name(name);
      const Range part = sorted(factor * axis.least, factor * axis.most);
      out = {out.least + part.least, out.most + part.most};
    }
    return out;
  }

  /// value = (value - t * condition) + t * condition, whose second part is 0 or more for t >= 0; t removes an axis.
  void narrow(Range& range, const Affine& value, const Affine& condition) const {
    for (const auto& [name, factor] : value.factors) {
      const auto other = condition.factors.find(name);
      if (other == condition.factors.end() || other->second == 0) continue;
      const double times = factor / other->second;
      Affine rest = value;
      rest.add(condition, -times);
      if (times > 0) range.least = std::max(range.least, range_of(rest).least);
      if (times < 0) range.most = std::min(range.most, range_of(rest).most);
    }
  }

  const ReadSites& reads_;
  const Extents& extents_;
  const HostIntegers& data_;
  std::map<std::string, Range> axes_;
  // Of whole tensors, once they are asked for; the same for every place.
  std::shared_ptr<std::map<std::string, DataRange>> ranges_ = std::make_shared<std::map<std::string, DataRange>>();
};

}  // namespace astatide
