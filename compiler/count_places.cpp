#include "compiler/count_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "compiler/algorithm/tape_machine.h"
#include "compiler/support/contains.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

using Conjunction = std::vector<Expr>;

/// Of conjunctions that predicates are taken apart into.
constexpr std::size_t kMostConjunctions = 64;
/// Places of the other axes, where ranges of one are counted.
constexpr std::int64_t kMostRows = kMostVisiblePlaces / 4;

/// Whether it is made of integers alone: a sum of others has no next smaller number.
bool is_integer(const Expr& e) {
  bool out = true;
  visit(e, [&](const Expr& node) {
    if (node.as<Number>()) out = false;
    if (const auto* c = node.as<Call>())
      out = out && (c->op == Op::add || c->op == Op::sub || c->op == Op::mul || c->op == Op::floor_div ||
                    c->op == Op::mod || c->op == Op::min || c->op == Op::max || c->op == Op::neg || c->op == Op::abs);
  });
  return out;
}

bool is_comparison(Op op) { return op == Op::lt || op == Op::le || op == Op::gt || op == Op::ge || op == Op::eq; }

std::optional<Op> negated(Op op) {
  switch (op) {
    case Op::lt:
      return Op::ge;
    case Op::le:
      return Op::gt;
    case Op::gt:
      return Op::le;
    case Op::ge:
      return Op::lt;
    case Op::eq:
      return Op::ne;
    case Op::ne:
      return Op::eq;
    default:
      return std::nullopt;
  }
}

/// Conjunctions of what holds no `and`, `or` or `not`, one of which holds where `e` does, or where it does not.
std::vector<Conjunction> disjunction_of(const Expr& e, bool holds) {
  const auto* c = e.as<Call>();
  if (c && c->op == Op::logical_not) return disjunction_of(c->args[0], !holds);
  if (c && (c->op == Op::logical_and || c->op == Op::logical_or)) {
    const std::vector<Conjunction> a = disjunction_of(c->args[0], holds), b = disjunction_of(c->args[1], holds);
    std::vector<Conjunction> out;
    if ((c->op == Op::logical_or) == holds) {
      out = a;
      out.insert(out.end(), b.begin(), b.end());
      return out;
    }
    for (const Conjunction& x : a)
      for (const Conjunction& y : b) {
        if (out.size() > kMostConjunctions) return out;
        out.push_back(x);
        out.back().insert(out.back().end(), y.begin(), y.end());
      }
    return out;
  }
  if (holds) return {{e}};
  if (c && negated(c->op)) return disjunction_of(call(*negated(c->op), c->args), true);
  return {{call(Op::logical_not, {e})}};
}

/// A predicate as what it says of one axis: of places for which `number` (and `other`) hold values.
struct Atom {
  enum class Kind : std::uint8_t {
    constant,   // number is not 0
    up_to,      // factor * place + number <= 0
    equal,      // factor * place + number == 0
    congruent,  // factor * place + number is `other` modulo `modulus`; factor is 1 or -1
    searched,   // tensor[.., place] `op` number, where the row begins at element `other`
  };
  Kind kind = Kind::constant;
  std::int64_t factor = 0;
  Expr number, other, modulus;
  Op op = Op::eq;
  const DoubleTensor* tensor = nullptr;
};

struct Range {
  std::int64_t begin = 0, end = 0;       // of places
  std::int64_t step = 1, remainder = 0;  // those of it that count
  std::int64_t count() const {
    if (begin >= end) return 0;
    const std::int64_t first = begin + ((remainder - begin) % step + step) % step;
    return first >= end ? 0 : (end - 1 - first) / step + 1;
  }
};

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

class Counter {
 public:
  Counter(const Places& places, const std::vector<Conjunction>& conjunctions) : places_(places) {
    for (const auto& [name, value] : places.extents) {
      values_[name] = Expr(value);
      context_.values[name] = static_cast<double>(value);
    }
    context_.tensors = &tensors_;
    for (const Conjunction& all : conjunctions) {
      std::vector<Conjunction> out{{}};
      std::optional<Expr> written;
      for (const Expr& predicate : all) {
        const Expr known = substitute(predicate, values_);
        written = written ? astatide::logical_and(*written, known) : known;
        std::vector<Conjunction> next;
        for (const Conjunction& one : disjunction_of(known, true))
          for (const Conjunction& before : out) {
            next.push_back(before);
            next.back().insert(next.back().end(), one.begin(), one.end());
          }
        out = std::move(next);
        if (out.size() > kMostConjunctions) break;
      }
      apart_.insert(apart_.end(), out.begin(), out.end());
      const Expr one = written.value_or(equal(Expr(0), Expr(0)));
      written_ = written_ ? call(Op::logical_or, {*written_, one}) : one;
    }
  }

  std::variant<double, std::string> count() {
    if (!written_) return 0.0;
    if (const std::string why_not = find_data(); !why_not.empty()) return why_not;
    for (const auto& [axis, length] : places_.axes) {
      if (length == 0) return 0.0;
      context_.axis_extents[axis] = length;
    }
    if (apart_.size() <= kMostConjunctions)
      for (const std::string& axis : axes_by_length())
        if (const auto atoms = atoms_along(axis)) try {
            return count_along(axis, *atoms);
          } catch (const UserError&) {
            // One predicate may keep another inside of a tensor: together they say where.
            break;
          }
    return count_one_by_one();
  }

 private:
  /// Why a predicate has no value, or nothing: tensors are here then.
  std::string find_data() {
    std::set<std::string> names = free_variables(*written_);
    for (const std::string& name : names)
      if (!places_.axes.contains(name)) return fmt::format("its masks depend on {}", name);
    for (const std::string& name : tensors_read(*written_)) {
      const Input* input = places_.algorithm->find_input(name);
      const DoubleTensor* tensor = input && *places_.inputs ? (*places_.inputs)(name) : nullptr;
      if (tensor == nullptr) return fmt::format("its masks depend on what is in {}", name);
      tensors_.push_back({name, tensor->shape, tensor->values.data(), nullptr});
      data_[name] = tensor;
    }
    return "";
  }

  std::vector<std::string> axes_by_length() const {
    std::vector<std::string> out;
    for (const auto& [axis, length] : places_.axes) out.push_back(axis);
    std::stable_sort(out.begin(), out.end(), [&](const std::string& a, const std::string& b) {
      return places_.axes.at(a) > places_.axes.at(b);
    });
    return out;
  }

  /// The values of an expression at all places of the axes, in the order of the places.
  std::vector<double> values_of(const Expr& e, const std::vector<std::string>& axes) {
    const CompiledDefinition compiled = compile_definition({"a mask", axes, e, {}, {}}, context_);
    TapeMachine machine(compiled, tensors_, Precision::f64, operations_);
    std::size_t size = 1;
    for (const std::int64_t length : compiled.shape) size *= static_cast<std::size_t>(length);
    const std::size_t row = compiled.shape.empty() ? 1 : static_cast<std::size_t>(compiled.shape.back());
    std::vector<double> out(size);
    for (std::size_t n = 0; n < size / row; ++n)
      machine.run_row(static_cast<std::int64_t>(n), out.data() + n * row, nullptr);
    return out;
  }

  std::optional<Atom> searched_by(Op op, const Expr& element, const Expr& number, const std::string& axis) const {
    const auto* r = element.as<Read>();
    const Input* input = r ? places_.algorithm->find_input(r->tensor) : nullptr;
    if (!input || !input->monotone || r->indices.empty() || !(r->indices.back() == variable(axis)) ||
        free_variables(number).contains(axis))
      return std::nullopt;
    Atom out;
    out.kind = Atom::Kind::searched;
    out.op = op;
    out.number = number;
    out.tensor = data_.at(r->tensor);
    out.other = Expr(0);
    for (std::size_t n = 0; n + 1 < r->indices.size(); ++n) {
      if (free_variables(r->indices[n]).contains(axis)) return std::nullopt;
      out.other = (out.other + r->indices[n]) * Expr(out.tensor->shape[n + 1]);
    }
    return out;
  }

  std::optional<std::vector<Atom>> atoms_of(const Expr& predicate, const std::string& axis) const {
    if (!free_variables(predicate).contains(axis)) {
      Atom out;
      out.number = astatide::select(predicate, Expr(1), Expr(0));
      return {{out}};
    }
    const auto* c = predicate.as<Call>();
    if (!c || !is_comparison(c->op)) return std::nullopt;
    if (const auto found = searched_by(c->op, c->args[0], c->args[1], axis)) return {{*found}};
    const Op turned = c->op == Op::lt   ? Op::gt
                      : c->op == Op::le ? Op::ge
                      : c->op == Op::gt ? Op::lt
                      : c->op == Op::ge ? Op::le
                                        : Op::eq;
    if (const auto found = searched_by(turned, c->args[1], c->args[0], axis)) return {{*found}};
    if (!is_integer(c->args[0]) || !is_integer(c->args[1])) return std::nullopt;
    Atom out;
    if (c->op == Op::eq && c->args[0].is_call(Op::mod)) {
      const auto& divided = c->args[0].as<Call>()->args;
      const auto form = tile::linear_in(divided[0], axis);
      if (form && std::abs(form->factor) == 1 && !free_variables(divided[1]).contains(axis) &&
          !free_variables(c->args[1]).contains(axis)) {
        out.kind = Atom::Kind::congruent;
        out.factor = form->factor;
        out.number = form->rest;
        out.other = c->args[1];
        out.modulus = divided[1];
        return {{out}};
      }
    }
    const bool less = c->op == Op::lt || c->op == Op::le || c->op == Op::eq;
    const auto form = tile::linear_in(less ? c->args[0] - c->args[1] : c->args[1] - c->args[0], axis);
    if (!form || form->factor == 0) return std::nullopt;
    out.kind = c->op == Op::eq ? Atom::Kind::equal : Atom::Kind::up_to;
    out.factor = form->factor;
    out.number = c->op == Op::lt || c->op == Op::gt ? form->rest + 1 : form->rest;
    return {{out}};
  }

  /// What all predicates say of an axis, or nothing where one is of no such form.
  std::optional<std::vector<std::vector<Atom>>> atoms_along(const std::string& axis) const {
    std::vector<std::vector<Atom>> out;
    for (const Conjunction& all : apart_) {
      std::vector<Atom>& atoms = out.emplace_back();
      int congruences = 0;
      for (const Expr& predicate : all) {
        const auto one = atoms_of(predicate, axis);
        if (!one) return std::nullopt;
        for (const Atom& atom : *one) congruences += atom.kind == Atom::Kind::congruent ? 1 : 0;
        atoms.insert(atoms.end(), one->begin(), one->end());
      }
      // Ranges with steps of their own have no union that is one.
      if (congruences > (apart_.size() > 1 ? 0 : 1)) return std::nullopt;
    }
    return out;
  }

  /// An atom with its numbers at all places of the other axes.
  struct Known {
    const Atom* atom;
    std::vector<double> number, other, modulus;
  };

  static void narrow(Range& range, const Known& known, std::size_t at) {
    const Atom& atom = *known.atom;
    const auto number = static_cast<std::int64_t>(known.number[at]);
    const auto limit = [&](std::int64_t factor, std::int64_t value) {
      if (factor > 0)
        range.end = std::min(range.end, floor_of(-value, factor) + 1);
      else
        range.begin = std::max(range.begin, -floor_of(-value, -factor));
    };
    switch (atom.kind) {
      case Atom::Kind::constant:
        if (number == 0) range.end = range.begin;
        return;
      case Atom::Kind::up_to:
        limit(atom.factor, number);
        return;
      case Atom::Kind::equal:
        limit(atom.factor, number);
        limit(-atom.factor, -number);
        return;
      case Atom::Kind::congruent: {
        range.step = std::max<std::int64_t>(1, static_cast<std::int64_t>(known.modulus[at]));
        const auto wanted = static_cast<std::int64_t>(known.other[at]);
        // What is no remainder equals none.
        if (wanted < 0 || wanted >= range.step) range.end = range.begin;
        range.remainder = atom.factor * (wanted - number) % range.step;
        return;
      }
      case Atom::Kind::searched: {
        const double* row = atom.tensor->values.data() + static_cast<std::int64_t>(known.other[at]);
        const double* end = row + atom.tensor->shape.back();
        const std::int64_t below = std::lower_bound(row, end, known.number[at]) - row;
        const std::int64_t up_to = std::upper_bound(row, end, known.number[at]) - row;
        if (atom.op == Op::lt) range.end = std::min(range.end, below);
        if (atom.op == Op::le || atom.op == Op::eq) range.end = std::min(range.end, up_to);
        if (atom.op == Op::gt) range.begin = std::max(range.begin, up_to);
        if (atom.op == Op::ge || atom.op == Op::eq) range.begin = std::max(range.begin, below);
        return;
      }
    }
  }

  std::variant<double, std::string> count_along(const std::string& axis, const std::vector<std::vector<Atom>>& atoms) {
    std::vector<std::string> others;
    std::int64_t places = 1;
    for (const auto& [name, length] : places_.axes) {
      if (name == axis) continue;
      others.push_back(name);
      if (__builtin_mul_overflow(places, length, &places) || places > kMostRows) return too_many(places, kMostRows);
    }
    std::vector<std::vector<Known>> known;
    for (const std::vector<Atom>& all : atoms) {
      std::vector<Known>& one = known.emplace_back();
      for (const Atom& atom : all) {
        one.push_back({&atom, values_of(atom.number, others), {}, {}});
        if (atom.kind == Atom::Kind::congruent || atom.kind == Atom::Kind::searched)
          one.back().other = values_of(atom.other, others);
        if (atom.kind == Atom::Kind::congruent) one.back().modulus = values_of(atom.modulus, others);
      }
    }
    double total = 0;
    std::vector<Range> ranges;
    for (std::size_t at = 0; at < static_cast<std::size_t>(places); ++at) {
      ranges.clear();
      for (const std::vector<Known>& all : known) {
        Range range{0, places_.axes.at(axis)};
        for (const Known& one : all) narrow(range, one, at);
        if (range.begin < range.end) ranges.push_back(range);
      }
      std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
      std::int64_t counted = 0;  // all places in front of it
      for (Range& range : ranges) {
        range.begin = std::max(range.begin, counted);
        total += static_cast<double>(range.count());
        counted = std::max(counted, range.end);
      }
    }
    return total;
  }

  /// How many places in a row an axis has between which no predicate tells: 64 where it is only read as i/64.
  std::int64_t block_of(const Expr& e, const std::string& axis) const {
    if (e == variable(axis)) return 1;
    if (e.is_call(Op::floor_div)) {
      const auto& args = e.as<Call>()->args;
      const auto* by = args[1].as<Integer>();
      if (by && by->value > 0 && args[0] == variable(axis)) return by->value;
    }
    std::int64_t out = 0;
    for (const Expr& child : children(e)) out = std::gcd(out, block_of(child, axis));
    return out;
  }

  std::variant<double, std::string> count_one_by_one() {
    std::vector<std::string> axes = axes_by_length();
    std::reverse(axes.begin(), axes.end());  // the longest is the innermost
    std::map<std::string, Expr> starts;
    std::vector<std::int64_t> blocks, lengths;
    std::int64_t places = 1;
    for (const std::string& axis : axes) {
      const std::int64_t block = std::max<std::int64_t>(1, block_of(*written_, axis)), length = places_.axes.at(axis);
      blocks.push_back(block);
      lengths.push_back((length + block - 1) / block);
      context_.axis_extents[axis] = lengths.back();
      if (block > 1) starts[axis] = variable(axis) * Expr(block);
      if (__builtin_mul_overflow(places, lengths.back(), &places) || places > kMostVisiblePlaces)
        return too_many(places, kMostVisiblePlaces);
    }
    const Expr flag = select(substitute(*written_, starts), Expr(1), Expr(0));
    const CompiledDefinition compiled = compile_definition({"a mask", axes, flag, {}, {}}, context_);
    TapeMachine machine(compiled, tensors_, Precision::f64, operations_);
    // Of an index of blocks: places that are there.
    const auto width = [&](std::size_t axis, std::int64_t n) {
      return static_cast<double>(std::min(blocks[axis], places_.axes.at(axes[axis]) - n * blocks[axis]));
    };
    const std::int64_t row = axes.empty() ? 1 : lengths.back();
    std::vector<double> values(static_cast<std::size_t>(row));
    double total = 0;
    for (std::int64_t outer = 0; outer < places / row; ++outer) {
      machine.run_row(outer, values.data(), nullptr);
      double sum = 0;
      for (std::int64_t n = 0; n < row; ++n)
        if (const double value = values[static_cast<std::size_t>(n)]; value != 0)
          sum += axes.empty() ? 1 : width(axes.size() - 1, n);
      std::int64_t rest = outer;
      for (std::size_t axis = axes.size(); axis-- > 0;) {
        if (axis + 1 == axes.size()) continue;
        sum *= width(axis, rest % lengths[axis]);
        rest /= lengths[axis];
      }
      total += sum;
    }
    return total;
  }

  static std::string too_many(std::int64_t places, std::int64_t most) {
    return fmt::format("its masks differ at {} places and more, {} are looked at", places, most);
  }

  const Places& places_;
  std::map<std::string, Expr> values_;
  TapeContext context_;
  std::vector<TapeTensor> tensors_;
  std::map<std::string, const DoubleTensor*> data_;
  std::map<Op, Roundings::Function> operations_;
  std::vector<Conjunction> apart_;
  std::optional<Expr> written_;
};

}  // namespace

std::variant<double, std::string> count_places(const Places& places,
                                               const std::vector<std::vector<Expr>>& conjunctions) {
  try {
    return Counter(places, conjunctions).count();
  } catch (const UserError& error) {
    // Such as a place that a tensor has not got.
    return error.diagnostics().front().message;
  }
}

}  // namespace astatide
