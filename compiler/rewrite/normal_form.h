#pragma once

#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/algorithm/expr.h"

namespace astatide {

// Normal form: a sum of products of powers of atoms and of one exponential,
//
//   Polynomial = sum of  coefficient * prod base^exponent * exp(Polynomial)
//
// An atom is what the algebra does not look into: a name, a read, tanh(..), a comparison. exp2 and log2 are written
// with the atom log(2), so that a base-2 exponential comes out as one. Terms keep the order in which they were met.

struct Power {
  Expr base;
  double exponent = 1;
};

struct Monomial {
  double coefficient = 1;
  std::vector<Power> powers;
  std::vector<Monomial> exponent;  // of e; empty: no exponential
};

using Polynomial = std::vector<Monomial>;

/// Names that are known to be zero or more: log and fractional powers of products of them split.
struct Signs {
  std::set<std::string> nonnegative;
};

/// An expression whose normal form has more terms than any streaming form could carry.
class ExpansionTooLarge : public std::runtime_error {
 public:
  ExpansionTooLarge();
};
inline constexpr int kMaxTerms = 256;

/// Algebraic meaning: safe(x) is x and absorb(x, y) is x * y here; they come back when a recurrence is written down.
Polynomial normal_form(const Expr& e, const Signs& signs);

Monomial constant(double value);
Monomial power_of(const Expr& base, double exponent = 1);
Monomial multiply(const Monomial& a, const Monomial& b);
Polynomial multiply(const Polynomial& a, const Polynomial& b);
Polynomial add(const Polynomial& a, const Polynomial& b);
Polynomial scale(const Polynomial& p, double factor);
/// The reciprocal of one term.
Monomial reciprocal(const Monomial& m);
/// base^n: distributed over one term, multiplied out for small whole n, else a power of one atom.
Polynomial raise(const Polynomial& base, double n, const Signs& signs);

/// Equal up to the coefficient, and equal; the order of factors and terms is of no account.
bool same_factors(const Monomial& a, const Monomial& b);
bool equal(const Polynomial& a, const Polynomial& b);
/// Every factor is zero or more, whatever the values.
bool is_nonnegative(const Monomial& m, const Signs& signs);

Expr to_expr(const Monomial& m);
Expr to_expr(const Polynomial& p);
/// e^p, or 2^p' where every term of p has the factor log(2).
Expr exponential(const Polynomial& p);
/// base^n by multiplication where n is a small whole number.
Expr integer_power(const Expr& base, int n);

std::set<std::string> names_in(const Monomial& m);
std::set<std::string> names_in(const Polynomial& p);
/// Calls `f` on the base of each power and replaces it, in exponents too.
Polynomial map_atoms(const Polynomial& p, const std::function<Expr(const Expr&)>& f);

}  // namespace astatide
