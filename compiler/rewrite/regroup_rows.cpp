#include "compiler/rewrite/regroup_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/algorithm/names.h"
#include "compiler/rewrite/fresh_names.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

/// How an index divides an axis: into `groups` alike, or into as many as there are of `members` each.
struct Division {
  std::optional<Expr> groups, members;

  /// The length of the inner axis, and of the outer one of an axis of length `extent`.
  Expr inner(const Expr& extent) const { return members ? *members : floor_div(extent, *groups); }
  Expr outer(const Expr& extent) const { return groups ? *groups : floor_div(extent, *members); }
  const Expr& divisor() const { return groups ? *groups : *members; }
  friend bool operator==(const Division&, const Division&) = default;
};

class Regrouper {
 public:
  Regrouper(const Cascade& cascade, const Algorithm& algorithm, Diagnostics& errors)
      : cascade_(cascade), lengths_(algorithm.lengths), taken_(names_of(cascade)), errors_(errors) {
    taken_.merge(names_of(algorithm));
    for (RowValue& value : cascade_.values) {
      if (!value.output || !value.stored_at.empty()) continue;
      for (const std::string& index : value.indices) value.stored_at.push_back(variable(index));
    }
  }

  Cascade run(const RowGroups& groups) {
    for (const AxisSplit& split : groups.splits) add(split);
    for (const AxisFusion& fusion : groups.fusions) add(fusion);
    return std::move(cascade_);
  }

 private:
  void error(const Location& where, const std::string& key, const std::string& of, const std::string& message,
             std::vector<std::string> notes) {
    errors_.error(where, key + " of " + of + ": " + message, std::move(notes));
  }

  /// Whether the axis is one of the rows.
  bool check_row(const Location& where, const std::string& key, const std::string& of, const std::string& axis) {
    for (const auto& [ragged, length] : lengths_) {
      if (axis != ragged && !free_variables(length).contains(axis)) continue;
      error(where, key, of,
            fmt::format("{} is as long as {} says, which {} takes no part in", ragged, to_string(length), key),
            {"axes of one length can be taken apart and together"});
      return false;
    }
    if (contains(cascade_.rows, axis)) return true;
    if (never_made_.contains(axis)) return false;  // reported with its split
    std::vector<std::string> notes{"rows are " + join(cascade_.rows)};
    if (const auto into = gone_.find(axis); into != gone_.end()) {
      error(where, key, of, axis + " is in " + into->second + " already", {"name each axis once"});
    } else if (axis == cascade_.axis) {
      error(where, key, of, axis + " is the axis that is reduced, no row", notes);
    } else if (cascade_.axis_extents.contains(axis)) {
      error(where, key, of, axis + " is whole in a tile, no loop runs over it", notes);
    } else {
      if (const std::string near = axis.size() > 1 ? nearest_name(axis, cascade_.rows) : ""; !near.empty())
        notes.insert(notes.begin(), "did you mean " + near + "?");
      error(where, key, of, "there is no axis " + axis, notes);
    }
    return false;
  }

  bool check_new(const Location& where, const std::string& key, const std::string& of, const std::string& axis) {
    if (taken_.insert(axis).second) return true;
    error(where, key, of, "the name " + axis + " is taken", {"choose one that nothing has"});
    return false;
  }

  /// f of every expression, and of every list of axes.
  void transform_all(const std::function<Expr(const Expr&)>& f,
                     const std::function<void(std::vector<std::string>&)>& rename) {
    for (Element& element : cascade_.elements) {
      rename(element.indices);
      element.value = f(element.value);
      for (Expr& predicate : element.where_predicates) predicate = f(predicate);
      if (!element.product) continue;
      element.product->lhs = f(element.product->lhs);
      element.product->rhs = f(element.product->rhs);
    }
    for (Stage& stage : cascade_.stages) stage.term = f(stage.term);
    for (RowValue& value : cascade_.values) {
      rename(value.indices);
      value.value = f(value.value);
      for (Expr& predicate : value.where_predicates) predicate = f(predicate);
      for (Expr& index : value.stored_at) index = f(index);
    }
    rename(cascade_.rows);
  }

  static std::optional<Division> division_of(const Expr& e, const std::string& axis, const Expr& extent) {
    if (!e.is_call(Op::floor_div)) return std::nullopt;
    const Expr &above = e.as<Call>()->args[0], &below = e.as<Call>()->args[1];
    const auto varies = [&](const Expr& part) {
      return free_variables(part).contains(axis) || !tensors_read(part).empty();
    };
    if (above == variable(axis) && !varies(below)) {
      const auto* ratio = below.is_call(Op::floor_div) ? below.as<Call>() : nullptr;
      if (ratio && ratio->args[0] == extent) return Division{ratio->args[1], std::nullopt};
      return Division{std::nullopt, below};
    }
    if (!above.is_call(Op::mul) || !(below == extent)) return std::nullopt;
    for (const std::size_t side : {0, 1})
      if (above.as<Call>()->args[side] == variable(axis) && !varies(above.as<Call>()->args[1 - side]))
        return Division{above.as<Call>()->args[1 - side], std::nullopt};
    return std::nullopt;
  }

  /// The one way in which indices divide an axis.
  std::optional<Division> find_division(const AxisSplit& split, const Expr& extent) {
    std::vector<Division> found;
    std::vector<std::string> texts;
    transform_all(
        [&](const Expr& e) {
          visit(e, [&](const Expr& node) {
            const auto division = division_of(node, split.axis, extent);
            if (!division || contains(found, *division)) return;
            found.push_back(*division);
            texts.push_back(print_expr(node, {}, true));
          });
          return e;
        },
        [](std::vector<std::string>&) {});
    if (found.size() == 1) return found.front();
    const std::string &axis = split.axis, length = to_string(extent);
    if (found.empty())
      error(split.where, "split", split.of, "no index of the algorithm divides " + axis + ", so it has no groups",
            {"an index such as " + axis + "*Hkv/" + length + " or " + axis + "/4 would show them",
             "without groups " + axis + " itself can be fused"});
    else
      error(split.where, "split", split.of, "indices divide " + axis + " in more than one way: " + join(texts),
            {"an algorithm whose tensors have the groups as axes needs no split"});
    return std::nullopt;
  }

  void add(const AxisSplit& split) {
    const bool row = check_row(split.where, "split", split.of, split.axis);
    const bool outer = check_new(split.where, "split", split.of, split.outer);
    never_made_.insert({split.outer, split.inner});
    if (!check_new(split.where, "split", split.of, split.inner) || !outer || !row) return;
    const Expr extent = cascade_.axis_extents.at(split.axis);
    const auto division = find_division(split, extent);
    if (!division) return;
    never_made_.erase(split.outer);
    never_made_.erase(split.inner);
    const Expr members = division->inner(extent);
    cascade_.multiples.push_back({extent, division->divisor(), split.where});
    cascade_.axis_extents.erase(split.axis);
    cascade_.axis_extents.emplace(split.outer, division->outer(extent));
    cascade_.axis_extents.emplace(split.inner, members);
    const Expr whole = variable(split.outer) * members + variable(split.inner);
    transform_all(
        [&](const Expr& e) {
          // Of h*Hkv/Hq at h = hk*(Hq/Hkv) + g only hk is left, where Hkv divides Hq and g < Hq/Hkv.
          const Expr divided = transform(e, [&](const Expr& node) {
            return division_of(node, split.axis, extent) ? variable(split.outer) : node;
          });
          return substitute(divided, {{split.axis, whole}});
        },
        [&](std::vector<std::string>& axes) {
          const auto at = std::find(axes.begin(), axes.end(), split.axis);
          if (at == axes.end()) return;
          *at = split.outer;
          axes.insert(at + 1, split.inner);
        });
    gone_[split.axis] = split.outer + " and " + split.inner;
  }

  void add(const AxisFusion& fusion) {
    bool right = check_new(fusion.where, "fuse", fusion.of, fusion.fused);
    for (const std::string& axis : fusion.axes) right = check_row(fusion.where, "fuse", fusion.of, axis) && right;
    if (!right) return;
    // r / (lengths of those before) % (own length); nothing is left to take the last one's modulus of.
    std::map<std::string, Expr> places;
    Expr length(1);
    for (const std::string& axis : fusion.axes) {
      const Expr extent = cascade_.axis_extents.at(axis);
      const Expr above = length.is_constant(1) ? variable(fusion.fused) : floor_div(variable(fusion.fused), length);
      places.insert_or_assign(axis, axis == fusion.axes.back() ? above : mod(above, extent));
      length = length * extent;
      cascade_.axis_extents.erase(axis);
      gone_[axis] = fusion.fused;
    }
    cascade_.axis_extents.emplace(fusion.fused, length);
    transform_all([&](const Expr& e) { return substitute(e, places); },
                  [&](std::vector<std::string>& axes) {
                    // At the place of the last of them.
                    const auto is_part = [&](const std::string& axis) { return places.contains(axis); };
                    const auto last = std::find_if(axes.rbegin(), axes.rend(), is_part);
                    if (last == axes.rend()) return;
                    *last = fusion.fused;
                    std::erase_if(axes, is_part);
                  });
  }

  Cascade cascade_;
  std::map<std::string, Expr> lengths_;  // of ragged axes
  std::set<std::string> taken_;
  std::map<std::string, std::string> gone_;  // axes that are no more, and what they are in
  std::set<std::string> never_made_;         // of splits that are refused
  Diagnostics& errors_;
};

}  // namespace

Cascade regroup_rows(const Cascade& cascade, const RowGroups& groups, const Algorithm& algorithm, Diagnostics& errors) {
  if (groups.splits.empty() && groups.fusions.empty()) return cascade;
  return Regrouper(cascade, algorithm, errors).run(groups);
}

}  // namespace astatide
