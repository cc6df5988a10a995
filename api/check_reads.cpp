#include "api/check_reads.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/index_ranges.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

class SiteFinder {
 public:
  SiteFinder(const Algorithm& algorithm, ReadSites& out) : algorithm_(algorithm), out_(out) {}

  /// Nothing is looked at of an element that is not stored, its places neither.
  void find_update(const Func& update) {
    Func named = update;
    named.name = "the update of " + update.name;
    func_ = &named;
    in_update_ = true;
    std::vector<Expr> predicates;
    if (update.where_predicate) {
      find(*update.where_predicate, {{}, nullptr}, update.indices);
      predicates.push_back(*update.where_predicate);
    }
    find(update.value, {predicates, nullptr}, update.indices);
    const std::vector<Expr>& dims = algorithm_.find_input(update.name)->dims;
    for (std::size_t dim = 0; dim < update.stored.size(); ++dim) {
      find(update.stored[dim], {predicates, nullptr}, update.indices);
      add_site({named.name,
                update.name,
                dim,
                update.stored[dim],
                dims[dim],
                predicates,
                {},
                {},
                update.indices,
                update.where,
                ReadSite::Use::updates,
                true});
    }
    in_update_ = false;
    add_places(update);
  }

  void find(const Func& func) {
    func_ = &func;
    std::vector<Expr> predicates;
    if (func.where_predicate) {
      find(*func.where_predicate, {{}, nullptr}, func.indices);
      predicates.push_back(*func.where_predicate);
    }
    find(func.value, {predicates, nullptr}, func.indices);
    for (const Expr& place : func.stored) find(place, {{}, nullptr}, func.indices);
    const std::vector<Expr> shape = func.stored.empty() ? std::vector<Expr>{} : shape_of(algorithm_, func.name);
    for (std::size_t dim = 0; dim < func.stored.size(); ++dim)
      add_site({func_->name,
                func.name,
                dim,
                func.stored[dim],
                shape[dim],
                {},
                {},
                {},
                func.indices,
                func.where,
                ReadSite::Use::places});
  }
  void find_length(const std::string& axis, const Expr& length) {
    const Func named{"the length of axis " + axis, {}, length, {}, algorithm_.where};
    func_ = &named;
    const std::set<std::string> axes = free_variables(length);
    find(length, {{}, nullptr}, {axes.begin(), axes.end()});
  }

 private:
  struct Around {
    std::vector<Expr> predicates;
    const Reduce* reduction;
  };

  void find(const Expr& e, const Around& around, const std::vector<std::string>& axes) {
    if (const auto* read = e.as<Read>()) add(*read, around, axes, e);
    const auto* c = e.as<Call>();
    const auto* reduction = e.as<Reduce>();
    std::vector<std::string> inside = axes;
    if (reduction != nullptr) inside.push_back(reduction->axis);
    Around known = around;
    if (reduction != nullptr && known.reduction == nullptr) known = {{}, reduction};
    const std::vector<Expr> operands = children(e);
    for (std::size_t n = 0; n < operands.size(); ++n) {
      // Only the chosen side of a select is evaluated.
      if (c != nullptr && c->op == Op::select && n == 1) known.predicates.push_back(c->args[0]);
      find(operands[n], known, inside);
      if (c != nullptr && c->op == Op::select && n == 1) known.predicates.pop_back();
    }
  }

  void add(const Read& read, const Around& around, const std::vector<std::string>& axes, const Expr& at) {
    const Input* input = algorithm_.find_input(read.tensor);
    const std::vector<Expr> shape = input != nullptr ? input->dims : shape_of(algorithm_, read.tensor);
    for (std::size_t dim = 0; dim < read.indices.size() && dim < shape.size(); ++dim) {
      Location where = func_->where;
      if (at.line() > 0 && at.line() == where.line) where.column = at.column();
      ReadSite site{func_->name, read.tensor, dim,   read.indices[dim],    shape[dim], around.predicates, {},
                    {},          axes,        where, ReadSite::Use::reads, in_update_};
      if (around.reduction != nullptr && func_->where_predicate) {
        site.ends.push_back(*func_->where_predicate);
        site.tile_axes = tile_axes_of(at, *around.reduction);
      }
      add_site(std::move(site));
    }
  }

  static std::set<std::string> tile_axes_of(const Expr& operand, const Reduce& reduction) {
    std::set<std::string> out;
    for (const Expr& body : reduction.body)
      visit(body, [&](const Expr& e) {
        if (e.as<Read>() == nullptr || e == operand) return;
        const std::set<std::string> others = free_variables(e);
        for (const std::string& axis : free_variables(operand))
          if (!others.contains(axis)) out.insert(axis);
      });
    return out;
  }

  void add_site(ReadSite site) {
    const auto* axis = site.index.as<Variable>();
    const auto extent = axis == nullptr ? out_.axis_extents.end() : out_.axis_extents.find(axis->name);
    if (extent != out_.axis_extents.end() && extent->second == site.length) return;
    out_.sites.push_back(std::move(site));
  }

  /// An axis that is an index by itself, and in no other and no condition, has one element at each place.
  void add_places(const Func& update) {
    UpdatePlaces out{update.name, {}, {}, update.where_predicate, update.where};
    const auto lengths = within_lengths(algorithm_, update.indices);
    if (lengths) out.predicate = out.predicate ? logical_and(*lengths, *out.predicate) : *lengths;
    std::map<std::string, int> uses;
    const auto count = [&](const Expr& e) {
      for (const std::string& name : free_variables(e)) ++uses[name];
    };
    for (const Expr& place : update.stored) count(place);
    if (out.predicate) count(*out.predicate);
    for (const Expr& place : update.stored) {
      const auto* axis = place.as<Variable>();
      if (!axis || uses.at(axis->name) > 1 || !out_.axis_extents.contains(axis->name)) out.places.push_back(place);
    }
    for (const std::string& axis : update.indices)
      if (std::any_of(out.places.begin(), out.places.end(),
                      [&](const Expr& place) { return free_variables(place).contains(axis); }) ||
          (out.predicate && free_variables(*out.predicate).contains(axis)))
        out.axes.push_back(axis);
    if (!out.places.empty()) out_.updates.push_back(std::move(out));
  }

  const Algorithm& algorithm_;
  ReadSites& out_;
  const Func* func_ = nullptr;
  bool in_update_ = false;
};

/// Places that are looked at one by one: more would take seconds.
constexpr double kMostPlaces = 1 << 20;

class Checker {
 public:
  Checker(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors,
          PlacesChecked places)
      : reads_(reads),
        extents_(extents),
        data_(data),
        errors_(errors),
        places_(places),
        everywhere_(reads, extents, data) {}

  void run() {
    for (const std::string& name : reads_.monotone)
      if (const auto given = data_.find(name); given != data_.end()) check_monotone(name, given->second);
    // What is wrong with lengths makes places wrong.
    for (const auto& [axis, length] : reads_.axis_lengths) check_length(axis, length);
    if (!errors_.empty()) return;
    for (const ReadSite& site : reads_.sites) check(site);
    if (!errors_.empty() || places_ != PlacesChecked::all) return;
    for (const UpdatePlaces& update : reads_.updates) check_apart(update);
  }

 private:
  bool knows(const Expr& e) const {
    const std::set<std::string> tensors = tensors_read(e);
    return std::all_of(tensors.begin(), tensors.end(), [&](const std::string& name) { return data_.contains(name); });
  }

  void check_monotone(const std::string& name, const TensorView& view) {
    const auto found = find_decrease(view);
    if (!found) return;
    errors_.error({},
                  fmt::format("{} is monotone, and decreases from {} to {} at [{}]", name, found->before, found->value,
                              fmt::join(found->index, ", ")),
                  {"leave monotone out, or sort along the last dimension"});
  }

  /// Calls f at each place of the axes beside those of `from`, with the place, until it gives false. False where there
  /// are too many.
  template <class F>
  bool each_place(const IndexRanges& from, const std::set<std::string>& axes, const F& f) const {
    std::vector<std::pair<std::string, std::int64_t>> lengths;
    double places = 1;
    for (const std::string& axis : axes) {
      lengths.emplace_back(axis, everywhere_.length_of(axis));
      places *= static_cast<double>(lengths.back().second);
    }
    if (places_ == PlacesChecked::few && places > kMostPlaces) return false;
    if (places < 1) return true;
    IndexRanges here = from;
    std::vector<std::int64_t> place(lengths.size(), 0);
    while (true) {
      for (std::size_t k = 0; k < lengths.size(); ++k) here.set_place(lengths[k].first, place[k]);
      if (!f(here)) return true;
      std::size_t k = lengths.size();
      while (k > 0 && ++place[k - 1] == lengths[k - 1].second) place[--k] = 0;
      if (k == 0) return true;
    }
  }

  /// " at b = 1, j = 3".
  static std::string text_of(const IndexRanges& here, const std::set<std::string>& axes) {
    std::string text;
    for (const std::string& axis : axes)
      text += fmt::format("{}{} = {}", text.empty() ? " at " : ", ", axis, here.place_of(axis));
    return text;
  }

  void check_length(const std::string& axis, const Expr& length) {
    if (!knows(length)) return;
    const std::int64_t most = everywhere_.length_of(axis);
    std::set<std::string> axes;
    for (const std::string& name : free_variables(length))
      if (reads_.axis_extents.contains(name)) axes.insert(name);
    each_place(everywhere_, axes, [&](const IndexRanges& here) {
      const Range value = here.value_of(length);
      if (!value.is_known() || (value.least >= 0 && value.most <= static_cast<double>(most))) return true;
      const std::string text = print_expr(length, {}, true);
      errors_.error({},
                    fmt::format("axis {} is {} = {:.0f} long{}, {} {}", axis, text, value.least, text_of(here, axes),
                                value.least < 0 ? "the least is" : "at most", value.least < 0 ? 0 : most),
                    {value.least < 0 ? "offsets of items must not decrease"
                                     : fmt::format("--shape gives a larger {}",
                                                   print_expr(reads_.axis_extents.at(axis), {}, true))});
      return false;
    });
  }

  void check(const ReadSite& site) {
    if (everywhere_.is_empty(site.axes) || !knows(site.index)) return;
    const auto length = static_cast<double>(evaluate_integer(site.length, extents_));
    const Range range = everywhere_.range_of(site);
    const bool inside = range.least >= 0 && range.most < length;
    const std::set<std::string> axes = everywhere_.axes_of_data(site.index, site.axes);
    if (inside && !(site.use == ReadSite::Use::places && !axes.empty())) return;
    if (axes.empty() && !site.each_place) return report(site, range, length, "");
    std::vector<Range> taken;
    bool right = true;
    const bool looked = each_place(everywhere_, axes, [&](const IndexRanges& place) {
      IndexRanges here = place;
      if (!here.shorten(site.axes) || here.excludes(site)) return true;
      const Range found = here.range_of(site);
      right = found.least >= 0 && found.most < length;
      if (!right && (places_ == PlacesChecked::all || site.each_place) && site.ends.empty()) {
        right = is_right_at_each(site, place, axes, length);
      } else if (!right) {
        report(site, found, length, text_of(place, axes));
      }
      if (site.use == ReadSite::Use::places) taken.push_back(found);
      return right;
    });
    if (!looked && !inside) report(site, range, length, "", true);
    if (right) check_apart(site, std::move(taken));
  }

  /// At one place of the axes of data, for each place of the others that the index and its conditions read: ranges may
  /// join an index of one with a condition of another.
  bool is_right_at_each(const ReadSite& site, const IndexRanges& from, const std::set<std::string>& fixed,
                        double length) {
    std::set<std::string> others;
    const auto add = [&](const Expr& e) {
      for (const std::string& name : free_variables(e))
        if (reads_.axis_extents.contains(name) && !fixed.contains(name)) others.insert(name);
    };
    add(site.index);
    for (const Expr& predicate : site.predicates) add(predicate);
    bool right = true;
    each_place(from, others, [&](const IndexRanges& place) {
      IndexRanges here = place;
      if (!here.shorten(site.axes) || here.excludes(site)) return true;
      const Range found = here.range_of(site);
      right = found.least >= 0 && found.most < length;
      if (right) return true;
      std::set<std::string> axes = fixed;
      axes.insert(others.begin(), others.end());
      report(site, found, length, text_of(place, axes));
      return false;
    });
    return right;
  }

  /// Elements of an update lie at places of their own.
  void check_apart(const UpdatePlaces& update) {
    if (everywhere_.is_empty(update.axes)) return;
    if (!std::all_of(update.places.begin(), update.places.end(), [&](const Expr& place) { return knows(place); }))
      return;
    const std::set<std::string> axes(update.axes.begin(), update.axes.end());
    ReadSite conditions;
    if (update.predicate) conditions.predicates.push_back(*update.predicate);
    std::map<std::vector<std::int64_t>, std::string> taken;
    each_place(everywhere_, axes, [&](const IndexRanges& here) {
      if (here.excludes(conditions)) return true;
      std::vector<std::int64_t> at;
      for (const Expr& place : update.places) at.push_back(static_cast<std::int64_t>(here.value_of(place).least));
      const std::string element = text_of(here, axes);
      const auto [before, is_free] = taken.emplace(at, element);
      if (is_free) return true;
      std::vector<std::string> texts;
      for (std::size_t n = 0; n < at.size(); ++n)
        texts.push_back(fmt::format("{} = {}", print_expr(update.places[n], {}, true), at[n]));
      errors_.error(update.where,
                    fmt::format("{} is stored twice at {}:{} and{}", update.tensor, fmt::join(texts, ", "),
                                before->second, element),
                    {"which of the two it would hold is not said; a condition can leave one out"});
      return false;
    });
  }

  /// Items of an output lie beside each other.
  void check_apart(const ReadSite& site, std::vector<Range> taken) {
    std::sort(taken.begin(), taken.end(), [](const Range& a, const Range& b) { return a.least < b.least; });
    for (std::size_t n = 1; n < taken.size(); ++n) {
      if (taken[n].least > taken[n - 1].most) continue;
      errors_.error(
          site.where,
          fmt::format("{} is stored twice at index {:.0f} of dimension {}, by items from {:.0f} to {:.0f} and from "
                      "{:.0f} to {:.0f}",
                      site.tensor, taken[n].least, site.dim + 1, taken[n - 1].least, taken[n - 1].most, taken[n].least,
                      taken[n].most),
          {"offsets and lengths of items must leave them apart"});
      return;
    }
  }

  void report(const ReadSite& site, const Range& range, double length, const std::string& place,
              bool too_many_places = false) {
    const std::string index = print_expr(site.index, {}, true);
    std::string values = "is between no limits that can be shown";
    if (range.is_known() && range.least == range.most)
      values = fmt::format("is {:.0f}", range.least);
    else if (range.is_known())
      values = fmt::format("goes from {:.0f} to {:.0f}", range.least, range.most);
    std::string note = "the tensor has to hold every item";
    if (site.each_place) {
      note = "a condition ('where') can keep an element from being stored";
    } else if (!site.stores()) {
      note = fmt::format("min(max({}, 0), {}) keeps it inside", index, print_expr(site.length - Expr(1), {}, true));
      note += site.ends.empty() ? ", as does a condition on its definition"
                                : fmt::format(
                                      "; of conditions on {} only ends of an axis, for all rows alike, keep an "
                                      "operand from being read",
                                      site.reader);
    }
    std::vector<std::string> notes{std::move(note)};
    if (too_many_places)
      notes.emplace_back("check_indices (run --check-indices) looks at each of its places, however many");
    errors_.error(
        site.where,
        fmt::format("{} {} {} at index {}, which {}{}; dimension {} has the length {:.0f}", site.reader,
                    site.stores() ? "is stored in" : "reads", site.tensor, index, values, place, site.dim + 1, length),
        std::move(notes));
  }

  const ReadSites& reads_;
  const Extents& extents_;
  const HostIntegers& data_;
  Diagnostics& errors_;
  const PlacesChecked places_;
  const IndexRanges everywhere_;
};

}  // namespace

ReadSites find_read_sites(const Algorithm& algorithm) {
  ReadSites out;
  Diagnostics ignored;  // a checked algorithm has none
  out.axis_extents = infer_axis_extents(algorithm, ignored);
  out.axis_lengths = algorithm.lengths;
  for (const Input& input : algorithm.inputs)
    if (input.dtype && !is_floating(*input.dtype)) {
      out.integers.insert(input.name);
      if (input.monotone) out.monotone.push_back(input.name);
    }
  SiteFinder finder(algorithm, out);
  for (const auto& [axis, length] : algorithm.lengths) finder.find_length(axis, length);
  for (const Func& update : algorithm.updates) finder.find_update(update);
  for (const Func& func : algorithm.define) finder.find(func);
  return out;
}

void check_reads(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors,
                 PlacesChecked places) {
  if (!reads.sites.empty() || !reads.updates.empty() || !reads.monotone.empty() || !reads.axis_lengths.empty())
    Checker(reads, extents, data, errors, places).run();
}

std::vector<std::string> index_inputs(const ReadSites& reads) {
  std::set<std::string> names(reads.monotone.begin(), reads.monotone.end());
  for (const ReadSite& site : reads.sites) {
    names.merge(tensors_read(site.index));
    for (const Expr& predicate : site.predicates) names.merge(tensors_read(predicate));
    for (const Expr& predicate : site.ends) names.merge(tensors_read(predicate));
  }
  for (const UpdatePlaces& update : reads.updates) {
    for (const Expr& place : update.places) names.merge(tensors_read(place));
    if (update.predicate) names.merge(tensors_read(*update.predicate));
  }
  for (const auto& [axis, length] : reads.axis_lengths) names.merge(tensors_read(length));
  std::erase_if(names, [&](const std::string& name) { return !reads.integers.contains(name); });
  return {names.begin(), names.end()};
}

}  // namespace astatide
