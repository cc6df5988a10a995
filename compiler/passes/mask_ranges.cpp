#include "compiler/passes/mask_ranges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/cluster.h"

namespace astatide {
namespace {

using tile::Bounds;

/// Some of the rows of a tile: so many from the first on.
struct Part {
  Expr first;
  int rows = 0;
};

/// The predicates of a disjunction; one that is none by itself.
std::vector<Expr> disjuncts(const Expr& predicate) {
  const auto* c = predicate.as<Call>();
  const auto* negated = c && c->op == Op::logical_not ? c->args[0].as<Call>() : nullptr;
  std::vector<Expr> out;
  if (c && c->op == Op::logical_or)
    for (const Expr& part : c->args) std::ranges::copy(disjuncts(part), std::back_inserter(out));
  else if (negated && negated->op == Op::logical_and)
    for (const Expr& part : negated->args)
      std::ranges::copy(disjuncts(call(Op::logical_not, {part})), std::back_inserter(out));
  else
    out.push_back(predicate);
  return out;
}

class Analysis {
 public:
  Analysis(const tile::Map& map, const tile::For& loop, const tile::Program& program, const tile::Kernel& kernel,
           const std::optional<Part>& part)
      : map_(map), tile_(*kernel.find(map.dst)), loop_(loop), program_(program), kernel_(kernel) {
    // The blocks of a cluster run a loop equally often: its range is that of all their rows.
    std::map<std::string, Bounds> cluster;
    if (kernel.cluster && !part) cluster.emplace(kernel.cluster->var, tile::tiles_of(*kernel.cluster));
    ranges_ = cluster;
    for (const tile::Coordinate& coordinate : map.at) {
      const auto origin = tile::linear_in(coordinate.origin, loop.var);
      if (origin && origin->factor > 0 && !axis_) {
        axis_ = &coordinate;
        step_ = origin->factor;
        offset_ = origin->rest;
      } else {
        const auto origins = tile::bounds_of(coordinate.origin, cluster);
        if (!origins) throw InternalError("the tiles of a cluster have no order along " + coordinate.axis);
        const bool in_part = part && coordinate.axis == tile_.dims.front().axis;
        const Expr first = in_part ? part->first : Expr(0);
        const int rows = in_part ? part->rows : tile_.extent_of(coordinate.axis);
        ranges_[coordinate.axis] = {tile::collect_terms(origins->low + first),
                                    tile::collect_terms(origins->high + first + Expr(rows - 1))};
      }
    }
  }

  MaskRange run() {
    for (const Expr& predicate : tile::conjuncts(map_.where_predicates))
      if (!add(predicate, true) && !add_any_of(disjuncts(predicate))) range_.residual.push_back(predicate);
    for (const tile::Coordinate& coordinate : map_.at) {
      if (!coordinate.limit || &coordinate != axis_) continue;
      // The loop's own end keeps every tile that has an element.
      const bool ends_there = offset_.is_constant(0) && loop_.end == ceil_div(*coordinate.limit, Expr(step_));
      if (add(less(variable(coordinate.axis), *coordinate.limit), !ends_there))
        range_.whole_axes.push_back(coordinate.axis);
    }
    return range_;
  }

 private:
  struct Bound;

  /// False where the predicate does not bound the loop's axis; nothing is added then.
  bool add(const Expr& predicate, bool bounds_any) {
    const std::vector<Bound> bounds = bounds_by(predicate);
    add_to(range_, bounds, bounds_any);
    if (bounds.empty()) return false;
    if (std::all_of(bounds.begin(), bounds.end(), [](const Bound& bound) { return bound.searched; })) {
      SearchedPredicate& found = range_.searched.emplace_back(SearchedPredicate{predicate, {}});
      for (const Bound& bound : bounds) {
        const bool ends = bound.factor > 0;
        const Expr low = count(bound, bound.rest.low), high = count(bound, bound.rest.high);
        found.sides.push_back({ends, count(bound, bound.other), ends ? high : low, ends ? low : high});
      }
    }
    const std::vector<Expr> inequalities = tile::as_inequalities(predicate, program_, kernel_);
    range_.hold.insert(range_.hold.end(), inequalities.begin(), inequalities.end());
    return true;
  }

  /// Of a predicate that holds where one of `predicates` does. An iteration in which one of them holds everywhere is
  /// full, whatever the others read; of those that bound the axis from the same side alone the farthest counts. An
  /// iteration is empty where all of them leave it out. False where no iteration is known to be full.
  bool add_any_of(const std::vector<Expr>& predicates) {
    std::vector<MaskRange> all, whole;
    for (const Expr& predicate : predicates) {
      MaskRange one;
      bool bounded = true;
      for (const Expr& part : tile::conjuncts({predicate})) {
        const std::vector<Bound> bounds = bounds_by(part);
        bounded = bounded && !bounds.empty();
        add_to(one, bounds, true);
      }
      if (bounded) whole.push_back(one);
      all.push_back(std::move(one));
    }
    if (whole.empty()) return false;
    const auto none = [&](std::vector<Expr> MaskRange::*list) {
      return std::all_of(whole.begin(), whole.end(), [&](const MaskRange& one) { return (one.*list).empty(); });
    };
    // Ranges with two ends each make no one range.
    if (!none(&MaskRange::full_begin) && !none(&MaskRange::full_end)) whole.resize(1);
    append_farthest(whole, &MaskRange::full_begin, Op::max, Op::min);
    append_farthest(whole, &MaskRange::full_end, Op::min, Op::max);
    append_farthest(all, &MaskRange::any_begin, Op::max, Op::min);
    append_farthest(all, &MaskRange::any_end, Op::min, Op::max);
    return true;
  }

  /// Adds what `farthest` says of the bounds of each of `ranges`, of which the `tightest` holds, where all have one.
  void append_farthest(const std::vector<MaskRange>& ranges, std::vector<Expr> MaskRange::*list, Op tightest,
                       Op farthest) {
    std::vector<Expr> of_each;
    for (const MaskRange& one : ranges) {
      const std::optional<Expr> bound = tile::extreme(one.*list, tightest);
      if (!bound) return;
      of_each.push_back(*bound);
    }
    (range_.*list).push_back(*tile::extreme(of_each, farthest));
  }

  /// What a predicate says of the loop's axis; nothing where it does not bound it.
  std::vector<Bound> bounds_by(const Expr& predicate) const {
    if (!axis_) return {};
    std::vector<Bound> bounds;
    for (const Expr& inequality : tile::as_inequalities(predicate, program_, kernel_)) {
      std::int64_t factor = 0;
      Expr other;
      std::optional<Expr> searched;
      if (const auto form = tile::linear_in(inequality, axis_->axis)) {
        factor = form->factor;
        other = form->rest;
      } else if (const auto search = tile::searched_in(inequality, axis_->axis, program_); search && axis_->limit) {
        factor = search->factor;
        other = search->rest;
        searched = search->first;
      }
      if (factor == 0 || reads_tile(other)) return {};
      const auto rest = tile::bounds_of(other, ranges_, &program_);
      if (!rest || free_variables(rest->low).contains(loop_.var) || free_variables(rest->high).contains(loop_.var))
        return {};
      bounds.push_back({factor, other, *rest, searched});
    }
    return bounds;
  }

  void add_to(MaskRange& range, const std::vector<Bound>& bounds, bool bounds_any) const {
    for (const Bound& bound : bounds) {
      // factor * x + rest <= 0. Some element: with the least rest; every element: with the greatest.
      if (bound.factor > 0) {
        if (bounds_any) range.any_end.push_back(end(last(bound, bound.rest.low), 0));
        range.full_end.push_back(end(last(bound, bound.rest.high), extent() - 1));
      } else {
        if (bounds_any) range.any_begin.push_back(begin(first(bound, bound.rest.low), extent() - 1));
        range.full_begin.push_back(begin(first(bound, bound.rest.high), 0));
      }
    }
  }

  bool reads_tile(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return kernel_.find(name); });
  }

  /// factor * x + other <= 0, where x is the axis' coordinate, or the element there of a monotone tensor: the place of
  /// `searched` is that of coordinate 0. `rest`: what `other` is between.
  struct Bound {
    std::int64_t factor;
    Expr other;
    Bounds rest;
    std::optional<Expr> searched;
  };
  /// How many coordinates lie before what a bound says of the searched tensor, with `rest` in place of its other terms.
  Expr count(const Bound& bound, const Expr& rest) const {
    const Expr x = bound.factor > 0 ? tile::collect_terms(value_at_most(bound, rest) + 1) : value_at_least(bound, rest);
    return count_below(*bound.searched, *axis_->limit, x);
  }
  static Expr value_at_most(const Bound& bound, const Expr& rest) {
    const Expr value = tile::collect_terms(-rest);
    return bound.factor == 1 ? value : floor_div(value, Expr(bound.factor));
  }
  static Expr value_at_least(const Bound& bound, const Expr& rest) {
    const Expr value = tile::collect_terms(rest);
    return bound.factor == -1 ? value : ceil_div(value, Expr(-bound.factor));
  }
  /// The last coordinate with factor * x + rest <= 0.
  Expr last(const Bound& bound, const Expr& rest) const {
    return bound.searched ? count(bound, rest) - 1 : value_at_most(bound, rest);
  }
  /// The first coordinate with -factor * x + rest <= 0.
  Expr first(const Bound& bound, const Expr& rest) const {
    return bound.searched ? count(bound, rest) : value_at_least(bound, rest);
  }
  /// One past the last iteration whose element at `inner` is at most x.
  Expr end(const Expr& x, int inner) const {
    return floor_div(tile::collect_terms(x - offset_ - Expr(inner) + Expr(step_)), Expr(step_));
  }
  /// The first iteration whose element at `inner` is at least x.
  Expr begin(const Expr& x, int inner) const {
    return floor_div(tile::collect_terms(x - offset_ - Expr(inner) + Expr(step_ - 1)), Expr(step_));
  }
  int extent() const { return tile_.extent_of(axis_->axis); }

  const tile::Map& map_;
  const tile::Mem& tile_;
  const tile::For& loop_;
  const tile::Program& program_;
  const tile::Kernel& kernel_;
  const tile::Coordinate* axis_ = nullptr;
  std::int64_t step_ = 1;
  Expr offset_;
  std::map<std::string, Bounds> ranges_;
  MaskRange range_;
};

}  // namespace

MaskRange mask_range(const tile::Map& map, const tile::For& loop, const tile::Program& program,
                     const tile::Kernel& kernel) {
  return Analysis(map, loop, program, kernel, std::nullopt).run();
}

MaskRange mask_range_of_warpgroup(const tile::Map& map, const tile::For& loop, const tile::Program& program,
                                  const tile::Kernel& kernel, const Expr& warpgroup, int warpgroups) {
  const int rows = kernel.find(map.dst)->dims.front().extent / warpgroups;
  return Analysis(map, loop, program, kernel, Part{warpgroup * Expr(rows), rows}).run();
}

}  // namespace astatide
