#include "compiler/rewrite/normal_form.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/rewrite/rules.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {

namespace {

constexpr int kMaxPower = 16;

const Expr& log_of_two() {
  static const Expr e = call(Op::log, {Expr(2)});
  return e;
}

bool is_whole(double x) { return x == std::floor(x) && std::abs(x) <= 1e6; }

std::optional<double> literal(const Expr& e) {
  if (const auto* n = e.as<Number>()) return std::isfinite(n->value) ? std::optional(n->value) : std::nullopt;
  if (const auto* i = e.as<Integer>()) return static_cast<double>(i->value);
  return std::nullopt;
}

bool is_nonnegative_atom(const Expr& e, const Signs& signs) {
  if (const auto* v = e.as<Variable>()) return signs.nonnegative.contains(v->name);
  if (const auto* c = e.as<Call>()) {
    switch (c->op) {
      case Op::exp:
      case Op::exp2:
      case Op::sigmoid:
      case Op::sqrt:
      case Op::abs:
        return true;
      case Op::log:
        return e == log_of_two();
      case Op::max:
        return is_nonnegative_atom(c->args[0], signs) || is_nonnegative_atom(c->args[1], signs);
      case Op::min:
        return is_nonnegative_atom(c->args[0], signs) && is_nonnegative_atom(c->args[1], signs);
      case Op::select:
        return is_nonnegative_atom(c->args[1], signs) && is_nonnegative_atom(c->args[2], signs);
      case Op::add:
        return is_nonnegative_atom(c->args[0], signs) && is_nonnegative_atom(c->args[1], signs);
      default:
        return false;
    }
  }
  const std::optional<double> value = literal(e);
  return value && *value >= 0;
}

void add_term(Polynomial& p, const Monomial& m) {
  if (m.coefficient == 0) return;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!same_factors(p[i], m)) continue;
    const double sum = p[i].coefficient + m.coefficient;
    // What is left of 1/3 + 2/3 - 1 is rounding, not a term.
    const bool vanishes = std::abs(sum) <= 1e-13 * std::max(std::abs(p[i].coefficient), std::abs(m.coefficient));
    if (vanishes) {
      p.erase(p.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      p[i].coefficient = sum;
    }
    return;
  }
  if (p.size() >= kMaxTerms) throw ExpansionTooLarge();
  p.push_back(m);
}

void add_power(std::vector<Power>& powers, const Expr& base, double exponent) {
  for (std::size_t i = 0; i < powers.size(); ++i) {
    if (!(powers[i].base == base)) continue;
    powers[i].exponent += exponent;
    if (powers[i].exponent == 0) powers.erase(powers.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  powers.push_back({base, exponent});
}

/// One order for equal sums, so that sums inside atoms compare equal.
Expr as_atom(Polynomial p) {
  std::sort(p.begin(), p.end(), [](const Monomial& a, const Monomial& b) { return to_expr(a) < to_expr(b); });
  return to_expr(p);
}

/// e^p. A term c*log(y) of p is the power y^c.
Polynomial exponential_form(const Polynomial& p, const Signs& signs) {
  Polynomial result{constant(1)};
  Monomial rest = constant(1);
  for (const Monomial& term : p) {
    const bool is_log = term.exponent.empty() && term.powers.size() == 1 && term.powers[0].exponent == 1 &&
                        term.powers[0].base.is_call(Op::log);
    if (is_log) {
      const Expr& inside = term.powers[0].base.as<Call>()->args[0];
      result = multiply(result, raise(normal_form(inside, signs), term.coefficient, signs));
    } else {
      rest.exponent.push_back(term);
    }
  }
  return multiply(result, Polynomial{rest});
}

Polynomial logarithm_form(const Polynomial& p, const Signs& signs) {
  if (p.size() == 1 && is_nonnegative(p[0], signs)) {
    const Monomial& m = p[0];
    Polynomial result;
    if (m.powers.empty() && m.exponent.empty()) {
      if (m.coefficient == 2) return {power_of(log_of_two())};
      return {constant(std::log(m.coefficient))};
    }
    if (m.coefficient != 1) add_term(result, constant(std::log(m.coefficient)));
    for (const Power& power : m.powers) {
      const bool known = is_nonnegative_atom(power.base, signs);
      Monomial term = power_of(call(Op::log, {known ? power.base : call(Op::abs, {power.base})}));
      term.coefficient = power.exponent;
      add_term(result, term);
    }
    return add(result, m.exponent);
  }
  return {power_of(call(Op::log, {as_atom(p)}))};
}

Expr normalized_operand(const Expr& e, const Signs& signs) {
  try {
    return to_expr(normal_form(e, signs));
  } catch (const ExpansionTooLarge&) {
    return e;  // an operand of an opaque function need not be expanded
  }
}

Polynomial opaque(const Expr& e, const Signs& signs) {
  std::vector<Expr> operands = children(e);
  for (Expr& operand : operands) operand = normalized_operand(operand, signs);
  return {power_of(with_children(e, std::move(operands)))};
}

Polynomial form_of(const Expr& e, const Signs& signs);

Polynomial call_form(const Expr& e, const Signs& signs) {
  const Op op = e.as<Call>()->op;
  const std::vector<Expr>& args = e.as<Call>()->args;
  const auto operand = [&](std::size_t i) { return form_of(args[i], signs); };
  switch (op) {
    case Op::add:
      return add(operand(0), operand(1));
    case Op::mul:
      return multiply(operand(0), operand(1));
    case Op::exp:
      return exponential_form(operand(0), signs);
    case Op::log:
      return logarithm_form(operand(0), signs);
    case Op::pow:
      if (const auto n = literal(args[1])) return raise(operand(0), *n, signs);
      return opaque(e, signs);
    default:
      return opaque(e, signs);
  }
}

/// Of an expression that simplify() has written over the core operations.
Polynomial form_of(const Expr& e, const Signs& signs) {
  if (const auto value = literal(e)) return *value == 0 ? Polynomial{} : Polynomial{constant(*value)};
  if (e.as<Call>()) return call_form(e, signs);
  if (e.as<Reduce>()) throw InternalError("normal_form: a reduction inside an expression of a recurrence");
  return {power_of(e)};  // a name, a read, an infinite literal
}

/// The part of a product that is printed before the first "/", or below it.
Expr product_of(const std::vector<Power>& powers, bool below) {
  Expr product(1);
  for (const Power& power : powers) {
    if ((power.exponent < 0) != below) continue;
    const double n = std::abs(power.exponent);
    Expr factor = power.base;
    if (n == 0.5) {
      factor = call(Op::sqrt, {power.base});
    } else if (is_whole(n) && n <= kMaxPower) {
      factor = integer_power(power.base, static_cast<int>(n));
    } else {
      factor = call(Op::pow, {power.base, Expr(n)});
    }
    product = product * factor;
  }
  return product;
}

/// log(y)/log(2) is log2(y).
std::vector<Power> with_log2(std::vector<Power> powers) {
  const auto below = std::find_if(powers.begin(), powers.end(),
                                  [](const Power& p) { return p.base == log_of_two() && p.exponent == -1; });
  if (below == powers.end()) return powers;
  const auto above = std::find_if(powers.begin(), powers.end(),
                                  [](const Power& p) { return p.base.is_call(Op::log) && p.exponent == 1; });
  if (above == powers.end()) return powers;
  above->base = call(Op::log2, above->base.as<Call>()->args);
  powers.erase(below);
  return powers;
}

Expr number(double value) {
  if (is_whole(value)) return Expr(static_cast<std::int64_t>(value));
  return Expr(value);
}

}  // namespace

ExpansionTooLarge::ExpansionTooLarge()
    : std::runtime_error("multiplied out it has more than " + std::to_string(kMaxTerms) + " terms") {}

Monomial constant(double value) {
  Monomial m;
  m.coefficient = value;
  return m;
}

Monomial power_of(const Expr& base, double exponent) {
  Monomial m;
  m.powers.push_back({base, exponent});
  return m;
}

Monomial multiply(const Monomial& a, const Monomial& b) {
  Monomial product = a;
  product.coefficient *= b.coefficient;
  for (const Power& power : b.powers) add_power(product.powers, power.base, power.exponent);
  product.exponent = add(a.exponent, b.exponent);
  return product;
}

Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const Monomial& x : a) {
    for (const Monomial& y : b) add_term(product, multiply(x, y));
  }
  return product;
}

Polynomial add(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (const Monomial& m : b) add_term(sum, m);
  return sum;
}

Polynomial scale(const Polynomial& p, double factor) {
  Polynomial scaled = p;
  for (Monomial& m : scaled) m.coefficient *= factor;
  return scaled;
}

Monomial reciprocal(const Monomial& m) {
  Monomial result = m;
  result.coefficient = 1 / m.coefficient;
  for (Power& power : result.powers) power.exponent = -power.exponent;
  result.exponent = scale(m.exponent, -1);
  return result;
}

Polynomial raise(const Polynomial& base, double n, const Signs& signs) {
  if (n == 0) return {constant(1)};
  if (n == 1) return base;
  if (base.size() == 1 && (is_whole(n) || is_nonnegative(base[0], signs))) {
    Monomial result = base[0];
    result.coefficient = std::pow(base[0].coefficient, n);
    for (Power& power : result.powers) {
      // sqrt(x*x) is |x|.
      if (!is_whole(n) && !is_nonnegative_atom(power.base, signs)) power.base = call(Op::abs, {power.base});
      power.exponent *= n;
    }
    result.exponent = scale(base[0].exponent, n);
    return {result};
  }
  if (is_whole(n) && n >= 0 && n <= kMaxPower) {
    Polynomial result{constant(1)};
    for (int i = 0; i < static_cast<int>(n); ++i) result = multiply(result, base);
    return result;
  }
  return {power_of(as_atom(base), n)};
}

bool same_factors(const Monomial& a, const Monomial& b) {
  if (a.powers.size() != b.powers.size() || a.exponent.size() != b.exponent.size()) return false;
  for (const Power& x : a.powers) {
    const bool found = std::any_of(b.powers.begin(), b.powers.end(),
                                   [&](const Power& y) { return x.exponent == y.exponent && x.base == y.base; });
    if (!found) return false;
  }
  return equal(a.exponent, b.exponent);
}

bool equal(const Polynomial& a, const Polynomial& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const Monomial& x) {
    return std::any_of(b.begin(), b.end(), [&](const Monomial& y) {
      const double size = std::max(std::abs(x.coefficient), std::abs(y.coefficient));
      return std::abs(x.coefficient - y.coefficient) <= 1e-13 * size && same_factors(x, y);
    });
  });
}

bool is_nonnegative(const Monomial& m, const Signs& signs) {
  if (m.coefficient < 0) return false;
  return std::all_of(m.powers.begin(), m.powers.end(), [&](const Power& power) {
    const bool even = is_whole(power.exponent / 2);
    return even || is_nonnegative_atom(power.base, signs);
  });
}

Polynomial normal_form(const Expr& e, const Signs& signs) { return form_of(simplify(e, core_rules()), signs); }

Expr integer_power(const Expr& base, int n) {
  if (n == 0) return Expr(1);
  if (n == 1) return base;
  const Expr half = integer_power(base, n / 2);
  return n % 2 == 0 ? half * half : base * (half * half);
}

Expr exponential(const Polynomial& p) {
  const auto has_log2 = [](const Monomial& m) {
    return std::any_of(m.powers.begin(), m.powers.end(),
                       [](const Power& power) { return power.base == log_of_two() && power.exponent == 1; });
  };
  if (!p.empty() && std::all_of(p.begin(), p.end(), has_log2)) {
    return call(Op::exp2, {to_expr(multiply(p, Polynomial{power_of(log_of_two(), -1)}))});
  }
  return exp(to_expr(p));
}

Expr to_expr(const Monomial& m) {
  const std::vector<Power> powers = with_log2(m.powers);
  Expr above = product_of(powers, false);
  if (!m.exponent.empty()) above = above * exponential(m.exponent);
  const Expr below = product_of(powers, true);
  if (m.coefficient == -1 && !above.is_constant(1)) {
    above = -above;
  } else {
    above = number(m.coefficient) * above;
  }
  return above / below;
}

Expr to_expr(const Polynomial& p) {
  Expr sum(0);
  bool first = true;
  // What is added comes before what is subtracted, so that no sum starts with a sign.
  for (const bool negative : {false, true}) {
    for (const Monomial& m : p) {
      if ((m.coefficient < 0) != negative) continue;
      if (first) {
        sum = to_expr(m);
      } else if (negative) {
        Monomial positive = m;
        positive.coefficient = -m.coefficient;
        sum = sum - to_expr(positive);
      } else {
        sum = sum + to_expr(m);
      }
      first = false;
    }
  }
  return sum;
}

std::set<std::string> names_in(const Monomial& m) {
  std::set<std::string> names = names_in(m.exponent);
  for (const Power& power : m.powers) names.merge(free_variables(power.base));
  return names;
}

std::set<std::string> names_in(const Polynomial& p) {
  std::set<std::string> names;
  for (const Monomial& m : p) names.merge(names_in(m));
  return names;
}

Polynomial map_atoms(const Polynomial& p, const std::function<Expr(const Expr&)>& f) {
  Polynomial mapped = p;
  for (Monomial& m : mapped) {
    for (Power& power : m.powers) power.base = f(power.base);
    m.exponent = map_atoms(m.exponent, f);
  }
  return mapped;
}

}  // namespace astatide
