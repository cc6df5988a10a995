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

  void find(const Func& func) {
    func_ = &func;
    std::vector<Expr> predicates;
    if (func.where_predicate) {
      find(*func.where_predicate, {}, func.indices);
      predicates.push_back(*func.where_predicate);
    }
    find(func.value, predicates, func.indices);
    for (const Expr& place : func.stored) find(place, {}, func.indices);
    const std::vector<Expr> shape = func.stored.empty() ? std::vector<Expr>{} : shape_of(algorithm_, func.name);
    for (std::size_t dim = 0; dim < func.stored.size(); ++dim)
      add_site(func.name, dim, func.stored[dim], shape[dim], {}, func.indices, func.where, true);
  }
  void find_length(const std::string& axis, const Expr& length) {
    const Func named{"the length of axis " + axis, {}, length, {}, algorithm_.where};
    func_ = &named;
    const std::set<std::string> axes = free_variables(length);
    find(length, {}, {axes.begin(), axes.end()});
  }

 private:
  void find(const Expr& e, const std::vector<Expr>& predicates, const std::vector<std::string>& axes) {
    if (const auto* read = e.as<Read>()) add(*read, predicates, axes, e);
    const auto* c = e.as<Call>();
    const auto* reduction = e.as<Reduce>();
    std::vector<std::string> inside = axes;
    if (reduction != nullptr) inside.push_back(reduction->axis);
    std::vector<Expr> known = predicates;
    const std::vector<Expr> operands = children(e);
    for (std::size_t n = 0; n < operands.size(); ++n) {
      // Only the chosen side of a select is evaluated.
      if (c != nullptr && c->op == Op::select && n == 1) known.push_back(c->args[0]);
      find(operands[n], known, inside);
      if (c != nullptr && c->op == Op::select && n == 1) known.pop_back();
    }
  }

  void add(const Read& read, const std::vector<Expr>& predicates, const std::vector<std::string>& axes,
           const Expr& at) {
    const Input* input = algorithm_.find_input(read.tensor);
    const std::vector<Expr> shape = input != nullptr ? input->dims : shape_of(algorithm_, read.tensor);
    for (std::size_t dim = 0; dim < read.indices.size() && dim < shape.size(); ++dim) {
      Location where = func_->where;
      if (at.line() > 0 && at.line() == where.line) where.column = at.column();
      add_site(read.tensor, dim, read.indices[dim], shape[dim], predicates, axes, where, false);
    }
  }

  void add_site(const std::string& tensor, std::size_t dim, const Expr& index, const Expr& length,
                const std::vector<Expr>& predicates, const std::vector<std::string>& axes, const Location& where,
                bool stores) {
    const auto* axis = index.as<Variable>();
    const auto extent = axis == nullptr ? out_.axis_extents.end() : out_.axis_extents.find(axis->name);
    if (extent != out_.axis_extents.end() && extent->second == length) return;
    out_.sites.push_back({func_->name, tensor, dim, index, length, predicates, axes, where, stores});
  }

  const Algorithm& algorithm_;
  ReadSites& out_;
  const Func* func_ = nullptr;
};

/// Places that are looked at one by one: more would take seconds.
constexpr double kMostPlaces = 1 << 20;

class Checker {
 public:
  Checker(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors)
      : reads_(reads), extents_(extents), data_(data), errors_(errors), everywhere_(reads, extents, data) {}

  void run() {
    for (const std::string& name : reads_.monotone)
      if (const auto given = data_.find(name); given != data_.end()) check_monotone(name, given->second);
    // What is wrong with lengths makes places wrong.
    for (const auto& [axis, length] : reads_.axis_lengths) check_length(axis, length);
    if (!errors_.empty()) return;
    for (const ReadSite& site : reads_.sites) check(site);
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

  /// Calls f at each place of the axes until it gives false.
  template <class F>
  bool each_place(const std::set<std::string>& axes, const F& f) const {
    std::vector<std::pair<std::string, std::int64_t>> lengths;
    double places = 1;
    for (const std::string& axis : axes) {
      lengths.emplace_back(axis, everywhere_.length_of(axis));
      places *= static_cast<double>(lengths.back().second);
    }
    if (places > kMostPlaces) return false;
    std::vector<std::int64_t> place(lengths.size(), 0);
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(places); ++n) {
      IndexRanges here = everywhere_;
      std::string text;
      std::int64_t rest = n;
      for (std::size_t k = lengths.size(); k-- > 0; rest /= lengths[k].second) {
        place[k] = rest % lengths[k].second;
        here.set_place(lengths[k].first, place[k]);
      }
      for (std::size_t k = 0; k < lengths.size(); ++k)
        text += fmt::format("{}{} = {}", k == 0 ? " at " : ", ", lengths[k].first, place[k]);
      if (!f(here, text)) break;
    }
    return true;
  }

  void check_length(const std::string& axis, const Expr& length) {
    if (!knows(length)) return;
    const std::int64_t most = everywhere_.length_of(axis);
    std::set<std::string> axes;
    for (const std::string& name : free_variables(length))
      if (reads_.axis_extents.contains(name)) axes.insert(name);
    each_place(axes, [&](const IndexRanges& here, const std::string& place) {
      const Range value = here.value_of(length);
      if (!value.is_known() || (value.least >= 0 && value.most <= static_cast<double>(most))) return true;
      const std::string text = print_expr(length, {}, true);
      errors_.error({},
                    fmt::format("axis {} is {} = {:.0f} long{}, {} {}", axis, text, value.least, place,
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
    const Range range = everywhere_.range_of(site.index, site.predicates);
    const bool inside = range.least >= 0 && range.most < length;
    const std::set<std::string> axes = everywhere_.axes_of_data(site.index, site.axes);
    if (inside && !(site.stores && !axes.empty())) return;
    if (axes.empty()) return report(site, range, length, "");
    std::vector<Range> taken;
    bool right = true;
    const bool looked = each_place(axes, [&](const IndexRanges& place, const std::string& text) {
      IndexRanges here = place;
      if (!here.shorten(site.axes) || here.excluded(site.predicates)) return true;
      const Range found = here.range_of(site.index, site.predicates);
      right = found.least >= 0 && found.most < length;
      if (!right) report(site, found, length, text);
      if (site.stores) taken.push_back(found);
      return right;
    });
    if (!looked && !inside) report(site, range, length, "");
    if (right) check_apart(site, std::move(taken));
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

  void report(const ReadSite& site, const Range& range, double length, const std::string& place) {
    const std::string index = print_expr(site.index, {}, true);
    std::string values = "is between no limits that can be shown";
    if (range.is_known() && range.least == range.most)
      values = fmt::format("is {:.0f}", range.least);
    else if (range.is_known())
      values = fmt::format("goes from {:.0f} to {:.0f}", range.least, range.most);
    errors_.error(
        site.where,
        fmt::format("{} {} {} at index {}, which {}{}; dimension {} has the length {:.0f}", site.reader,
                    site.stores ? "is stored in" : "reads", site.tensor, index, values, place, site.dim + 1, length),
        {site.stores ? "the tensor has to hold every item"
                     : fmt::format("min(max({}, 0), {}) keeps it inside, as does a condition on its definition", index,
                                   print_expr(site.length - Expr(1), {}, true))});
  }

  const ReadSites& reads_;
  const Extents& extents_;
  const HostIntegers& data_;
  Diagnostics& errors_;
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
  for (const Func& func : algorithm.define) finder.find(func);
  return out;
}

void check_reads(const ReadSites& reads, const Extents& extents, const HostIntegers& data, Diagnostics& errors) {
  if (!reads.sites.empty() || !reads.monotone.empty() || !reads.axis_lengths.empty())
    Checker(reads, extents, data, errors).run();
}

std::vector<std::string> index_inputs(const ReadSites& reads) {
  std::set<std::string> names(reads.monotone.begin(), reads.monotone.end());
  for (const ReadSite& site : reads.sites) {
    names.merge(tensors_read(site.index));
    for (const Expr& predicate : site.predicates) names.merge(tensors_read(predicate));
  }
  for (const auto& [axis, length] : reads.axis_lengths) names.merge(tensors_read(length));
  std::erase_if(names, [&](const std::string& name) { return !reads.integers.contains(name); });
  return {names.begin(), names.end()};
}

}  // namespace astatide
