#include "compiler/passes/mask_ranges.h"

#include <algorithm>
#include <cmath>
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
      if (!add(predicate, true)) range_.residual.push_back(predicate);
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
  /// False where the predicate does not bound the loop's axis; nothing is added then.
  bool add(const Expr& predicate, bool bounds_any) {
    if (!axis_) return false;
    const std::vector<Expr> inequalities = tile::as_inequalities(predicate, program_, kernel_);
    std::vector<Bound> bounds;
    for (const Expr& inequality : inequalities) {
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
      if (factor == 0 || reads_tile(other)) return false;
      const auto rest = tile::bounds_of(other, ranges_, &program_);
      if (!rest || free_variables(rest->low).contains(loop_.var) || free_variables(rest->high).contains(loop_.var))
        return false;
      bounds.push_back({factor, other, *rest, searched});
    }
    if (!bounds.empty() &&
        std::all_of(bounds.begin(), bounds.end(), [](const Bound& bound) { return bound.searched; })) {
      SearchedPredicate& found = range_.searched.emplace_back(SearchedPredicate{predicate, {}});
      for (const Bound& bound : bounds) {
        const bool ends = bound.factor > 0;
        const Expr low = count(bound, bound.rest.low), high = count(bound, bound.rest.high);
        found.sides.push_back({ends, count(bound, bound.other), ends ? high : low, ends ? low : high});
      }
    }
    for (const Bound& bound : bounds) {
      // factor * x + rest <= 0. Some element: with the least rest; every element: with the greatest.
      if (bound.factor > 0) {
        if (bounds_any) range_.any_end.push_back(end(last(bound, bound.rest.low), 0));
        range_.full_end.push_back(end(last(bound, bound.rest.high), extent() - 1));
      } else {
        if (bounds_any) range_.any_begin.push_back(begin(first(bound, bound.rest.low), extent() - 1));
        range_.full_begin.push_back(begin(first(bound, bound.rest.high), 0));
      }
    }
    range_.hold.insert(range_.hold.end(), inequalities.begin(), inequalities.end());
    return !bounds.empty();
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
