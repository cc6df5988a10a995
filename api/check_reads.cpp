#include "api/check_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/algorithm/names.h"
#include "runtime/host_tensor.h"

namespace astatide {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Doubles: exact for every index that a tensor can have; beyond 2^53 only the verdict matters.
struct Range {
  double least = -kInfinity, most = kInfinity;

  bool is_known() const { return std::isfinite(least) && std::isfinite(most); }
  Range and_also(const Range& other) const { return {std::min(least, other.least), std::max(most, other.most)}; }
};

Range sorted(double a, double b) { return {std::min(a, b), std::max(a, b)}; }

/// A value that is linear in the axes: coefficients and a constant.
struct Affine {
  std::map<std::string, double> factors;
  double constant = 0;

  void add(const Affine& other, double times) {
    for (const auto& [name, factor] : other.factors) factors[name] += times * factor;
    constant += times * other.constant;
  }
};

/// What names stand for in one launch.
class Bounds {
 public:
  Bounds(const ReadSites& reads, const Extents& extents, const std::map<std::string, DataRange>& data)
      : extents_(extents), data_(data) {
    for (const auto& [axis, extent] : reads.axis_extents)
      axes_[axis] = {0, static_cast<double>(evaluate_integer(extent, extents)) - 1};
  }

  bool is_empty(const std::vector<std::string>& axes) const {
    return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
      const auto range = axes_.find(axis);
      return range != axes_.end() && range->second.most < 0;
    });
  }

  /// Where the predicates hold.
  Range range_of(const Expr& index, const std::vector<Expr>& predicates) const {
    Range range = range_of(index);
    const std::optional<Affine> value = affine(index);
    if (!value) return range;
    for (const Expr& predicate : predicates)
      for (const Affine& condition : conditions(predicate)) narrow(range, *value, condition);
    return range;
  }

 private:
  Range range_of(const Expr& e) const {
    if (const auto* n = e.as<Integer>()) return {static_cast<double>(n->value), static_cast<double>(n->value)};
    if (const auto* v = e.as<Variable>()) return range_of_name(v->name);
    if (const auto* r = e.as<Read>()) {
      const auto given = data_.find(r->tensor);
      if (given == data_.end()) return {};
      return {static_cast<double>(given->second.first), static_cast<double>(given->second.second)};
    }
    const auto* c = e.as<Call>();
    if (c == nullptr) return {};
    std::vector<Range> args;
    for (const Expr& arg : c->args) args.push_back(range_of(arg));
    if (c->op == Op::mod && args[1].is_known() && args[1].least > 0) return {0, args[1].most - 1};
    if (c->op == Op::select) return args[1].and_also(args[2]);
    // A bound on one side is enough to clamp the other.
    if (c->op == Op::min) return {std::min(args[0].least, args[1].least), std::min(args[0].most, args[1].most)};
    if (c->op == Op::max) return {std::max(args[0].least, args[1].least), std::max(args[0].most, args[1].most)};
    if (!std::all_of(args.begin(), args.end(), [](const Range& r) { return r.is_known(); })) return {};
    return range_of_call(c->op, args);
  }

  static Range range_of_call(Op op, const std::vector<Range>& args) {
    const Range& a = args[0];
    switch (op) {
      case Op::neg:
        return {-a.most, -a.least};
      case Op::abs:
        return {a.least <= 0 && a.most >= 0 ? 0 : std::min(std::fabs(a.least), std::fabs(a.most)),
                std::max(std::fabs(a.least), std::fabs(a.most))};
      case Op::add:
        return {a.least + args[1].least, a.most + args[1].most};
      case Op::sub:
        return {a.least - args[1].most, a.most - args[1].least};
      case Op::mul: {
        const Range& b = args[1];
        return sorted(a.least * b.least, a.most * b.most).and_also(sorted(a.least * b.most, a.most * b.least));
      }
      case Op::floor_div: {
        const Range& b = args[1];
        if (b.least <= 0) return {};
        return sorted(std::floor(a.least / b.least), std::floor(a.least / b.most))
            .and_also(sorted(std::floor(a.most / b.least), std::floor(a.most / b.most)));
      }
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
    const auto* c = e.as<Call>();
    if (c == nullptr) return std::nullopt;
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
    if (c->op != Op::mul) return std::nullopt;
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

  const Extents& extents_;
  const std::map<std::string, DataRange>& data_;
  std::map<std::string, Range> axes_;
};

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
      const auto* axis = read.indices[dim].as<Variable>();
      const auto extent = axis == nullptr ? out_.axis_extents.end() : out_.axis_extents.find(axis->name);
      if (extent != out_.axis_extents.end() && extent->second == shape[dim]) continue;
      Location where = func_->where;
      if (at.line() > 0 && at.line() == where.line) where.column = at.column();
      out_.sites.push_back({func_->name, read.tensor, dim, read.indices[dim], shape[dim], predicates, axes, where});
    }
  }

  const Algorithm& algorithm_;
  ReadSites& out_;
  const Func* func_ = nullptr;
};

bool reads_data(const Expr& index, const std::map<std::string, DataRange>& data) {
  const std::set<std::string> tensors = tensors_read(index);
  return std::any_of(tensors.begin(), tensors.end(), [&](const std::string& name) { return !data.contains(name); });
}

}  // namespace

ReadSites find_read_sites(const Algorithm& algorithm) {
  ReadSites out;
  Diagnostics ignored;  // a checked algorithm has none
  out.axis_extents = infer_axis_extents(algorithm, ignored);
  SiteFinder finder(algorithm, out);
  for (const Func& func : algorithm.define) finder.find(func);
  return out;
}

void check_reads(const ReadSites& reads, const Extents& extents, const std::map<std::string, DataRange>& data,
                 Diagnostics& errors) {
  if (reads.sites.empty()) return;
  const Bounds bounds(reads, extents, data);
  for (const ReadSite& site : reads.sites) {
    if (bounds.is_empty(site.axes) || reads_data(site.index, data)) continue;
    const Range range = bounds.range_of(site.index, site.predicates);
    const auto length = static_cast<double>(evaluate_integer(site.length, extents));
    if (range.least >= 0 && range.most < length) continue;
    const std::string index = print_expr(site.index, {}, true);
    std::string values = "is between no limits that can be shown";
    if (range.is_known()) values = fmt::format("goes from {:.0f} to {:.0f}", range.least, range.most);
    errors.error(site.where,
                 fmt::format("{} reads {} at index {}, which {}; dimension {} has the length {:.0f}", site.reader,
                             site.tensor, index, values, site.dim + 1, length),
                 {fmt::format("min(max({}, 0), {}) keeps it inside, as does a condition on its definition", index,
                              print_expr(site.length - Expr(1), {}, true))});
  }
}

std::vector<std::string> index_inputs(const ReadSites& reads) {
  std::set<std::string> names;
  for (const ReadSite& site : reads.sites) names.merge(tensors_read(site.index));
  return {names.begin(), names.end()};
}

DataRange data_range(const TensorView& view) {
  DataRange range{INT64_MAX, INT64_MIN};
  const std::int64_t size = size_in_bytes(view.dtype);
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  for (std::size_t n = 0; n < view.shape.size(); ++n) {
    if (view.shape[n] == 0) return {0, 0};
    // The same element again and again.
    if (view.strides[n] == 0) continue;
    shape.push_back(view.shape[n]);
    strides.push_back(view.strides[n] * size);
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  const auto* address = static_cast<const std::byte*>(view.data);
  while (true) {
    const auto value = static_cast<std::int64_t>(runtime::load_element(view.dtype, address));
    range = {std::min(range.first, value), std::max(range.second, value)};
    std::size_t axis = shape.size();
    while (true) {
      if (axis == 0) return range;
      --axis;
      address += strides[axis];
      if (++index[axis] < shape[axis]) break;
      address -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace astatide
