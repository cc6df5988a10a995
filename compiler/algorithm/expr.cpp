#include "compiler/algorithm/expr.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

constexpr std::array kOps{
    OpInfo{Op::add, "+", 2, true, true},
    OpInfo{Op::sub, "-", 2, true, true},
    OpInfo{Op::mul, "*", 2, true, true},
    OpInfo{Op::div, "/", 2, true, true},
    OpInfo{Op::floor_div, "/", 2, true, true},
    OpInfo{Op::mod, "%", 2, true, true},
    OpInfo{Op::min, "min", 2, false, true},
    OpInfo{Op::max, "max", 2, false, true},
    OpInfo{Op::neg, "-", 1, true, true},
    OpInfo{Op::exp, "exp", 1, false, true},
    OpInfo{Op::exp2, "exp2", 1, false, true},
    OpInfo{Op::log, "log", 1, false, true},
    OpInfo{Op::log2, "log2", 1, false, true},
    OpInfo{Op::tanh, "tanh", 1, false, true},
    OpInfo{Op::sigmoid, "sigmoid", 1, false, true},
    OpInfo{Op::sqrt, "sqrt", 1, false, true},
    OpInfo{Op::abs, "abs", 1, false, true},
    OpInfo{Op::pow, "pow", 2, false, false},
    OpInfo{Op::lt, "<", 2, true, true},
    OpInfo{Op::le, "<=", 2, true, true},
    OpInfo{Op::gt, ">", 2, true, true},
    OpInfo{Op::ge, ">=", 2, true, true},
    OpInfo{Op::eq, "==", 2, true, true},
    OpInfo{Op::ne, "!=", 2, true, true},
    OpInfo{Op::logical_and, "and", 2, true, true},
    OpInfo{Op::logical_or, "or", 2, true, true},
    OpInfo{Op::logical_not, "not", 1, true, true},
    OpInfo{Op::select, "select", 3, false, true},
    OpInfo{Op::count_below, "count_below", 3, false, false},
    OpInfo{Op::safe, "safe", 1, false, false},
    OpInfo{Op::absorb, "absorb", 2, false, false},
};
static_assert(kOps.size() == static_cast<std::size_t>(Op::absorb) + 1);
static_assert([] {
  for (std::size_t i = 0; i < kOps.size(); ++i)
    if (static_cast<std::size_t>(kOps[i].op) != i) return false;
  return true;
}());

std::uint32_t saturating_size(const std::vector<Expr>& operands) {
  std::uint64_t total = 1;
  for (const Expr& e : operands) total += e.tree_size();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(total, std::numeric_limits<std::uint32_t>::max()));
}

std::uint32_t size_of_node(const ExprNode& node) {
  return match(
      node, [](const Number&) { return 1U; }, [](const Integer&) { return 1U; }, [](const Variable&) { return 1U; },
      [](const Call& c) { return saturating_size(c.args); }, [](const Read& r) { return saturating_size(r.indices); },
      [](const Reduce& r) { return saturating_size(r.body); });
}

std::strong_ordering compare(const Expr& a, const Expr& b);

std::strong_ordering compare(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (const auto order = a.size() <=> b.size(); order != 0) return order;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const auto order = compare(a[i], b[i]); order != 0) return order;
  return std::strong_ordering::equal;
}

std::strong_ordering compare(const Expr& a, const Expr& b) {
  if (a.id() == b.id()) return std::strong_ordering::equal;
  if (const auto order = a.tree_size() <=> b.tree_size(); order != 0) return order;
  if (const auto order = a.node().index() <=> b.node().index(); order != 0) return order;
  return match(
      a.node(), [&](const Number& x) { return std::strong_order(x.value, b.as<Number>()->value); },
      [&](const Integer& x) { return x.value <=> b.as<Integer>()->value; },
      [&](const Variable& x) { return x.name <=> b.as<Variable>()->name; },
      [&](const Call& x) {
        const auto order = x.op <=> b.as<Call>()->op;
        return order != 0 ? order : compare(x.args, b.as<Call>()->args);
      },
      [&](const Read& x) {
        const auto order = x.tensor <=> b.as<Read>()->tensor;
        return order != 0 ? order : compare(x.indices, b.as<Read>()->indices);
      },
      [&](const Reduce& x) {
        const Reduce& y = *b.as<Reduce>();
        if (const auto order = x.op <=> y.op; order != 0) return order;
        if (const auto order = x.axis <=> y.axis; order != 0) return order;
        return compare(x.body, y.body);
      });
}

/// The value of a literal, whichever its kind.
std::optional<double> constant_value(const Expr& e) {
  if (const auto* n = e.as<Number>()) return n->value;
  if (const auto* i = e.as<Integer>()) return static_cast<double>(i->value);
  return std::nullopt;
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

/// Integers stay integers; where the result would leave 64 bits, or a divisor is 0, nothing is folded.
std::optional<std::int64_t> fold_integers(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Op::add:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Op::sub:
      return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Op::mul:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    case Op::floor_div:
      if (b == 0 || b == -1) return std::nullopt;
      return floor_quotient(a, b);
    case Op::mod:
      if (b == 0 || b == -1) return std::nullopt;
      return a - floor_quotient(a, b) * b;
    default:
      return std::nullopt;
  }
}

std::optional<Expr> fold(Op op, const Expr& a, const Expr& b) {
  const auto x = constant_value(a);
  const auto y = constant_value(b);
  if (!x || !y) return std::nullopt;
  const auto* ia = a.as<Integer>();
  const auto* ib = b.as<Integer>();
  if (ia && ib && op != Op::div) {
    if (const auto value = fold_integers(op, ia->value, ib->value)) return Expr(*value);
    return std::nullopt;
  }
  if (op == Op::floor_div || op == Op::mod) return std::nullopt;
  if (op == Op::div && *y == 0) return std::nullopt;
  const double args[2] = {*x, *y};
  return Expr(apply(op, args));
}

Expr folded(Op op, const Expr& a, const Expr& b) {
  if (auto constant = fold(op, a, b)) return *constant;
  return call(op, {a, b});
}

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
    case Reduction::softmax:
      return "softmax";
    case Reduction::logsumexp:
      return "logsumexp";
  }
  throw InternalError("unknown reduction");
}

double unit_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return 0;
    case Reduction::max:
      return -std::numeric_limits<double>::infinity();
    case Reduction::min:
      return std::numeric_limits<double>::infinity();
    case Reduction::softmax:
    case Reduction::logsumexp:
      break;
  }
  throw InternalError(std::string(name_of(reduction)) + " has no unit; see expand_definitions");
}

Expr::Expr(double value) : Expr(ExprNode(Number{value})) {}
Expr::Expr(int value) : Expr(ExprNode(Integer{value})) {}
Expr::Expr(std::int64_t value) : Expr(ExprNode(Integer{value})) {}

Expr::Expr(ExprNode node, int line, int column) {
  const std::uint32_t tree_size = size_of_node(node);
  data_ = std::make_shared<const Data>(Data{std::move(node), line, column, tree_size});
}

bool Expr::is_call(Op op) const {
  const auto* c = as<Call>();
  return c && c->op == op;
}

bool Expr::is_constant(double value) const {
  const auto constant = constant_value(*this);
  return constant && *constant == value;
}

bool operator==(const Expr& a, const Expr& b) { return compare(a, b) == 0; }
bool operator<(const Expr& a, const Expr& b) { return compare(a, b) < 0; }

Expr variable(std::string name) { return Expr(ExprNode(Variable{std::move(name)})); }

Expr call(Op op, std::vector<Expr> args) {
  if (static_cast<int>(args.size()) != info(op).arity)
    throw InternalError(std::string(info(op).name) + " takes " + std::to_string(info(op).arity) + " operands, not " +
                        std::to_string(args.size()));
  return Expr(ExprNode(Call{op, std::move(args)}));
}

Expr read(std::string tensor, std::vector<Expr> indices) {
  return Expr(ExprNode(Read{std::move(tensor), std::move(indices)}));
}

Expr reduce(Reduction op, std::string axis, Expr body) {
  return Expr(ExprNode(Reduce{op, std::move(axis), {std::move(body)}}));
}

Expr merged(Reduction op, const Expr& a, const Expr& b) {
  switch (op) {
    case Reduction::sum:
      return a + b;
    case Reduction::max:
      return max(a, b);
    case Reduction::min:
      return min(a, b);
    case Reduction::softmax:
    case Reduction::logsumexp:
      break;
  }
  throw InternalError(std::string(name_of(op)) + " has results that are not merged; see expand_definitions");
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  return folded(Op::add, a, b);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (b.is_constant(0)) return a;
  return folded(Op::sub, a, b);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  return folded(Op::mul, a, b);
}

Expr operator/(const Expr& a, const Expr& b) {
  if (b.is_constant(1)) return a;
  return folded(Op::div, a, b);
}

Expr operator-(const Expr& a) {
  if (const auto* n = a.as<Number>()) return Expr(-n->value);
  if (const auto* i = a.as<Integer>(); i && i->value != std::numeric_limits<std::int64_t>::min())
    return Expr(-i->value);
  return call(Op::neg, {a});
}

Expr floor_div(const Expr& a, const Expr& b) {
  if (b.is_constant(1)) return a;
  return folded(Op::floor_div, a, b);
}

Expr mod(const Expr& a, const Expr& b) { return folded(Op::mod, a, b); }

Expr ceil_div(const Expr& a, const Expr& b) {
  if (b.is_constant(1)) return a;
  return floor_div(a + (b - 1), b);
}

Expr min(const Expr& a, const Expr& b) { return folded(Op::min, a, b); }
Expr max(const Expr& a, const Expr& b) { return folded(Op::max, a, b); }
Expr less(const Expr& a, const Expr& b) { return call(Op::lt, {a, b}); }
Expr less_equal(const Expr& a, const Expr& b) { return call(Op::le, {a, b}); }
Expr equal(const Expr& a, const Expr& b) { return call(Op::eq, {a, b}); }
Expr logical_and(const Expr& a, const Expr& b) { return call(Op::logical_and, {a, b}); }
Expr exp(const Expr& a) { return call(Op::exp, {a}); }
Expr log(const Expr& a) { return call(Op::log, {a}); }
Expr count_below(const Expr& first, const Expr& count, const Expr& value) {
  return call(Op::count_below, {first, count, value});
}
Expr select(const Expr& condition, const Expr& a, const Expr& b) { return call(Op::select, {condition, a, b}); }
Expr negation(const Expr& predicate) {
  return predicate.is_call(Op::logical_not) ? predicate.as<Call>()->args[0] : call(Op::logical_not, {predicate});
}
Expr safe(const Expr& a) { return call(Op::safe, {a}); }
Expr absorb(const Expr& factor, const Expr& other) { return call(Op::absorb, {factor, other}); }

}  // namespace astatide
