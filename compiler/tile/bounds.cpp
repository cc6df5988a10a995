#include "compiler/tile/bounds.h"

#include <algorithm>

namespace astatide::tile {
namespace {

/// A sum of integer multiples of expressions that are themselves no sums.
struct Affine {
  std::map<Expr, std::int64_t> terms;
  std::int64_t constant = 0;

  void add(const Affine& other, std::int64_t factor) {
    for (const auto& [term, count] : other.terms)
      if ((terms[term] += factor * count) == 0) terms.erase(term);
    constant += factor * other.constant;
  }
};

std::optional<std::int64_t> integer_of(const Expr& e) {
  if (const auto* n = e.as<Integer>()) return n->value;
  return std::nullopt;
}

// Products and sums of constants in a file are bounded by its parser; here they only must not overflow silently.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

Affine affine_of(const Expr& e) {
  Affine out;
  if (const auto n = integer_of(e)) {
    out.constant = *n;
    return out;
  }
  if (const auto* c = e.as<Call>()) {
    if (c->op == Op::add || c->op == Op::sub) {
      out = affine_of(c->args[0]);
      out.add(affine_of(c->args[1]), c->op == Op::add ? 1 : -1);
      return out;
    }
    if (c->op == Op::neg) {
      out.add(affine_of(c->args[0]), -1);
      return out;
    }
    if (c->op == Op::mul) {
      for (int side = 0; side < 2; ++side)
        if (const auto factor = integer_of(c->args[static_cast<std::size_t>(side)]);
            factor && *factor<kLargest&& * factor> - kLargest) {
          out.add(affine_of(c->args[static_cast<std::size_t>(1 - side)]), *factor);
          return out;
        }
    }
  }
  out.terms[e] = 1;
  return out;
}

Expr expression_of(const Affine& affine) {
  std::optional<Expr> out;
  // Terms with positive factors first, so that the text begins without a sign.
  for (const bool positive : {true, false}) {
    for (const auto& [term, factor] : affine.terms) {
      if ((factor > 0) != positive) continue;
      const std::int64_t size = factor > 0 ? factor : -factor;
      const Expr scaled = size == 1 ? term : term * Expr(size);
      if (!out)
        out = positive ? scaled : -scaled;
      else
        out = positive ? *out + scaled : *out - scaled;
    }
  }
  if (!out) return Expr(affine.constant);
  if (affine.constant == 0) return *out;
  return affine.constant > 0 ? *out + Expr(affine.constant) : *out - Expr(-affine.constant);
}

bool varies(const Expr& e, const std::map<std::string, Bounds>& ranges) {
  const std::set<std::string> names = free_variables(e);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return ranges.contains(name); });
}

/// The element at an index that may lie beyond the end: the last one is no less than any that is there.
Expr clamped_read(const Read& read, const Expr& index, const Tensor& tensor) {
  std::vector<Expr> indices = read.indices;
  indices.back() = max(min(collect_terms(index), tensor.dims.back() - 1), Expr(0));
  return astatide::read(read.tensor, std::move(indices));
}

const Tensor* monotone_tensor(const Read& read, const Program* program) {
  const Tensor* tensor = program ? program->find_tensor(read.tensor) : nullptr;
  return tensor && tensor->monotone && !read.indices.empty() ? tensor : nullptr;
}

std::optional<Bounds> bounds_of_read(const Read& read, const std::map<std::string, Bounds>& ranges,
                                     const Program* program) {
  const Tensor* tensor = monotone_tensor(read, program);
  if (!tensor || std::any_of(read.indices.begin(), read.indices.end() - 1,
                             [&](const Expr& index) { return varies(index, ranges); }))
    return std::nullopt;
  const auto last = bounds_of(read.indices.back(), ranges, program);
  if (!last) return std::nullopt;
  return Bounds{clamped_read(read, last->low, *tensor), clamped_read(read, last->high, *tensor)};
}

/// Names are lengths and places, which are not negative, nor is what is made of them without a difference.
bool is_product_of_lengths(const Expr& e) {
  if (e.as<Variable>()) return true;
  if (const auto n = integer_of(e)) return *n >= 0;
  const auto* c = e.as<Call>();
  return c && (c->op == Op::mul || c->op == Op::floor_div || c->op == Op::min || c->op == Op::max) &&
         std::all_of(c->args.begin(), c->args.end(), is_never_negative);
}

/// A divisor that does not vary. One that is 0 divides nothing that exists: bounds may say anything then, and must
/// only be numbers.
std::optional<Expr> positive_divisor(const Expr& e, const std::map<std::string, Bounds>& ranges) {
  if (const auto n = integer_of(e)) return *n > 0 ? std::optional(e) : std::nullopt;
  if (varies(e, ranges) || !is_never_negative(e)) return std::nullopt;
  return max(e, Expr(1));
}

/// e / factor, where e is a product that holds it.
std::optional<Expr> without_factor(const Expr& e, const Expr& factor) {
  if (e == factor) return Expr(1);
  if (!e.is_call(Op::mul)) return std::nullopt;
  const Expr &a = e.as<Call>()->args[0], &b = e.as<Call>()->args[1];
  if (const auto rest = without_factor(a, factor)) return *rest * b;
  if (const auto rest = without_factor(b, factor)) return a * *rest;
  return std::nullopt;
}

/// floor(e / divisor) for a divisor of at least 1; `checked` is that, or 1. (G*Sq - 1) / G is Sq - 1.
Expr quotient(const Expr& e, const Expr& divisor, const Expr& checked) {
  const Affine affine = affine_of(e);
  Affine whole, rest;
  for (const auto& [term, factor] : affine.terms) {
    const auto other = without_factor(term, divisor);
    if (other) whole.add(affine_of(*other), factor);
    if (!other) rest.terms[term] = factor;
  }
  rest.constant = affine.constant;
  // -1 / divisor is -1, 0 / divisor 0.
  const bool exact = rest.terms.empty() && (rest.constant == 0 || rest.constant == -1);
  if (!exact && whole.terms.empty() && whole.constant == 0) return floor_div(e, checked);
  whole.add(exact ? rest : affine_of(floor_div(expression_of(rest), checked)), 1);
  return expression_of(whole);
}

std::optional<Bounds> bounds_of_call(const Call& c, const std::map<std::string, Bounds>& ranges,
                                     const Program* program) {
  std::vector<Bounds> args;
  for (const Expr& arg : c.args) {
    const auto bounds = bounds_of(arg, ranges, program);
    if (!bounds) return std::nullopt;
    args.push_back(*bounds);
  }
  switch (c.op) {
    case Op::min:
      return Bounds{min(args[0].low, args[1].low), min(args[0].high, args[1].high)};
    case Op::max:
      return Bounds{max(args[0].low, args[1].low), max(args[0].high, args[1].high)};
    case Op::floor_div: {
      const auto divisor = positive_divisor(c.args[1], ranges);
      if (!divisor) return std::nullopt;
      return Bounds{quotient(args[0].low, c.args[1], *divisor), quotient(args[0].high, c.args[1], *divisor)};
    }
    case Op::mod: {
      const auto divisor = positive_divisor(c.args[1], ranges);
      if (!divisor) return std::nullopt;
      return Bounds{Expr(0), *divisor - 1};
    }
    default:
      return std::nullopt;
  }
}

bool is_integer_expression(const Expr& e, const Program& program, const Kernel& kernel) {
  bool integer = true;
  visit(e, [&](const Expr& node) {
    if (const auto* v = node.as<Variable>()) {
      const Mem* tile = kernel.find(v->name);
      integer = integer && (!tile || tile->type == ScalarType::i32);
    }
    if (const auto* read = node.as<Read>()) {
      const Tensor* tensor = program.find_tensor(read->tensor);
      integer = integer && tensor && !is_floating(tensor->type) && tensor->type != ScalarType::boolean;
    }
    if (node.as<Number>() || node.as<Reduce>()) integer = false;
    if (const auto* c = node.as<Call>()) {
      switch (c->op) {
        case Op::add:
        case Op::sub:
        case Op::mul:
        case Op::neg:
        case Op::floor_div:
        case Op::mod:
        case Op::min:
        case Op::max:
          break;
        default:
          integer = false;
      }
    }
  });
  return integer;
}

void split_conjunction(const Expr& e, std::vector<Expr>& out) {
  if (e.is_call(Op::logical_and)) {
    for (const Expr& part : e.as<Call>()->args) split_conjunction(part, out);
    return;
  }
  if (e.is_call(Op::logical_not)) {
    const Expr& inner = e.as<Call>()->args[0];
    if (const auto* c = inner.as<Call>()) {
      const auto negated = [&](Op op) { out.push_back(call(op, c->args)); };
      switch (c->op) {
        case Op::lt:
          return negated(Op::ge);
        case Op::le:
          return negated(Op::gt);
        case Op::gt:
          return negated(Op::le);
        case Op::ge:
          return negated(Op::lt);
        case Op::logical_or:
          for (const Expr& part : c->args) split_conjunction(call(Op::logical_not, {part}), out);
          return;
        default:
          break;
      }
    }
  }
  out.push_back(e);
}

/// The same where only axis / divisor is read: a place that leaves out a quotient leaves out all that have it.
std::optional<Expr> end_along_quotient(const std::string& axis, const Expr& inequality,
                                       const std::map<std::string, Bounds>& ranges) {
  const std::string name = "quotient of " + axis;
  std::optional<Expr> divisor;
  bool one = true;
  const Expr replaced = transform(inequality, [&](const Expr& e) {
    if (!e.is_call(Op::floor_div) || !(e.as<Call>()->args[0] == variable(axis))) return e;
    const Expr& own = e.as<Call>()->args[1];
    one = one && (!divisor || *divisor == own);
    divisor = own;
    return variable(name);
  });
  if (!divisor || !one || free_variables(replaced).contains(axis) || !positive_divisor(*divisor, ranges))
    return std::nullopt;
  const auto end = linear_in(replaced, name) ? end_along(name, replaced, ranges) : std::nullopt;
  return end ? std::optional(*end * *divisor) : std::nullopt;
}

}  // namespace

Expr collect_terms(const Expr& e) { return expression_of(affine_of(e)); }

std::optional<LinearForm> linear_in(const Expr& e, const std::string& name) {
  const Affine affine = affine_of(e);
  LinearForm out;
  Affine rest;
  rest.constant = affine.constant;
  for (const auto& [term, factor] : affine.terms) {
    if (term == variable(name)) {
      out.factor = factor;
    } else {
      if (free_variables(term).contains(name)) return std::nullopt;
      rest.terms[term] = factor;
    }
  }
  out.rest = expression_of(rest);
  return out;
}

std::optional<SearchForm> searched_in(const Expr& e, const std::string& name, const Program& program) {
  const Affine affine = affine_of(e);
  std::optional<SearchForm> out;
  Affine rest;
  rest.constant = affine.constant;
  for (const auto& [term, factor] : affine.terms) {
    if (!free_variables(term).contains(name)) {
      rest.terms[term] = factor;
      continue;
    }
    const auto* read = term.as<Read>();
    if (out || !read || !monotone_tensor(*read, &program)) return std::nullopt;
    const auto last = linear_in(read->indices.back(), name);
    if (!last || last->factor != 1) return std::nullopt;
    std::vector<Expr> indices = read->indices;
    indices.back() = last->rest;
    out = SearchForm{factor, astatide::read(read->tensor, std::move(indices)), Expr(0)};
    if (free_variables(out->first).contains(name)) return std::nullopt;
  }
  if (out) out->rest = expression_of(rest);
  return out;
}

std::optional<Bounds> bounds_of(const Expr& e, const std::map<std::string, Bounds>& ranges, const Program* program) {
  if (!varies(e, ranges)) return Bounds{e, e};
  const Affine affine = affine_of(e);
  if (affine.terms.size() == 1 && affine.terms.begin()->first == e) {
    if (const auto* name = e.as<Variable>()) return ranges.at(name->name);
    if (const auto* c = e.as<Call>()) return bounds_of_call(*c, ranges, program);
    if (const auto* read = e.as<Read>()) return bounds_of_read(*read, ranges, program);
    return std::nullopt;
  }
  Affine low, high;
  low.constant = high.constant = affine.constant;
  for (const auto& [term, factor] : affine.terms) {
    const auto bounds = bounds_of(term, ranges, program);
    if (!bounds) return std::nullopt;
    low.add(affine_of(factor > 0 ? bounds->low : bounds->high), factor);
    high.add(affine_of(factor > 0 ? bounds->high : bounds->low), factor);
  }
  return Bounds{expression_of(low), expression_of(high)};
}

std::optional<Expr> extreme(const std::vector<Expr>& list, Op op) {
  std::optional<Expr> out;
  for (const Expr& e : list)
    if (!out)
      out = e;
    else if (!(*out == e))
      out = call(op, {*out, e});
  return out;
}

std::vector<Expr> conjuncts(const std::vector<Expr>& predicates) {
  std::vector<Expr> out;
  for (const Expr& predicate : predicates) split_conjunction(predicate, out);
  return out;
}

std::vector<Expr> as_inequalities(const Expr& predicate, const Program& program, const Kernel& kernel) {
  const auto* c = predicate.as<Call>();
  if (!c || c->args.size() != 2) return {};
  const Expr &a = c->args[0], &b = c->args[1];
  if (!is_integer_expression(a, program, kernel) || !is_integer_expression(b, program, kernel)) return {};
  switch (c->op) {
    case Op::le:
      return {a - b};
    case Op::lt:
      return {a - b + Expr(1)};
    case Op::ge:
      return {b - a};
    case Op::gt:
      return {b - a + Expr(1)};
    case Op::eq:
      return {a - b, b - a};
    default:
      return {};
  }
}

std::optional<Expr> end_along(const std::string& axis, const Expr& inequality,
                              const std::map<std::string, Bounds>& ranges) {
  const auto form = linear_in(inequality, axis);
  if (!form) return end_along_quotient(axis, inequality, ranges);
  if (form->factor <= 0) return std::nullopt;
  const auto rest = bounds_of(form->rest, ranges);
  if (!rest) return std::nullopt;
  const Expr last = form->factor == 1 ? -rest->low : floor_div(collect_terms(-rest->low), Expr(form->factor));
  return collect_terms(last + 1);
}

bool is_multiple(const Expr& e, std::int64_t number) {
  if (const auto* n = e.as<Integer>()) return n->value % number == 0;
  const auto* c = e.as<Call>();
  if (!c) return false;
  if (c->op == Op::mul) return is_multiple(c->args[0], number) || is_multiple(c->args[1], number);
  if (c->op == Op::add || c->op == Op::sub) return is_multiple(c->args[0], number) && is_multiple(c->args[1], number);
  return false;
}

bool is_never_negative(const Expr& e) {
  const Affine affine = affine_of(e);
  return affine.constant >= 0 && std::all_of(affine.terms.begin(), affine.terms.end(), [](const auto& term) {
           return term.second > 0 && is_product_of_lengths(term.first);
         });
}

Expr without_data(const Expr& e) {
  return transform(e, [](const Expr& node) {
    // Of what is there at some places only, and 0 elsewhere.
    if (node.is_call(Op::select) && !tensors_read(node.as<Call>()->args[0]).empty() &&
        node.as<Call>()->args[2].is_constant(0))
      return node.as<Call>()->args[1];
    if (!node.is_call(Op::min) && !node.is_call(Op::max)) return node;
    const Expr &a = node.as<Call>()->args[0], &b = node.as<Call>()->args[1];
    if (tensors_read(a).empty() == tensors_read(b).empty()) return node;
    return tensors_read(a).empty() ? a : b;
  });
}

}  // namespace astatide::tile
