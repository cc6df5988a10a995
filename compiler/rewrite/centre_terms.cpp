#include <algorithm>
#include <cmath>

#include "compiler/rewrite/derivation.h"

namespace astatide {

namespace {

int power_in(const SplitTerm& term, const Expr& atom) {
  for (const Power& power : term.along.powers) {
    if (!(power.base == atom)) continue;
    const bool whole = power.exponent == std::floor(power.exponent) && power.exponent > 0;
    return whole ? static_cast<int>(power.exponent) : -1;
  }
  return 0;
}

/// Everything but the coefficient that goes to finalize.
bool same_loop_part(const SplitTerm& a, const SplitTerm& b) {
  return same_factors(a.along, b.along) && same_factors(a.held, b.held) && a.power == b.power &&
         a.indicator == b.indicator && equal(a.exponent_along, b.exponent_along) &&
         equal(a.exponent_row, b.exponent_row);
}

void add_merged(std::vector<SplitTerm>& terms, const SplitTerm& term) {
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!same_loop_part(terms[i], term) || !same_factors(terms[i].row, term.row)) continue;
    const double size = std::max(std::abs(terms[i].row.coefficient), std::abs(term.row.coefficient));
    const double sum = terms[i].row.coefficient + term.row.coefficient;
    if (std::abs(sum) <= 1e-12 * size) {
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      terms[i].row.coefficient = sum;
    }
    return;
  }
  terms.push_back(term);
}

/// a^p = sum over i of C(p,i) (a - centre)^i centre^(p-i) in every term; none where a power of a is not whole.
std::optional<std::vector<SplitTerm>> centred(const std::vector<SplitTerm>& terms, const Centring& centring,
                                              const Signs& signs) {
  std::vector<SplitTerm> result;
  for (const SplitTerm& term : terms) {
    const int p = power_in(term, centring.atom);
    if (p < 0) return std::nullopt;
    SplitTerm rest = term;
    if (p > 0) rest.along = multiply(rest.along, power_of(centring.atom, -p));
    double binomial = 1;
    for (int i = p; i >= 0; --i) {
      SplitTerm part = rest;
      part.power = i;
      part.row = multiply(part.row, raise({centring.centre}, p - i, signs)[0]);
      part.row.coefficient *= binomial;
      add_merged(result, part);
      binomial = binomial * i / (p - i + 1);
    }
  }
  return result;
}

std::vector<Centring> candidates(const Derivation& derivation, const std::vector<SplitTerm>& terms) {
  std::vector<Centring> result;
  for (const SplitTerm& upper : terms) {
    for (const Power& power : upper.along.powers) {
      const int p = power_in(upper, power.base);
      if (p <= 0) continue;
      SplitTerm without = upper;
      without.along = multiply(upper.along, power_of(power.base, -1));
      for (const SplitTerm& lower : terms) {
        if (!same_loop_part(without, lower)) continue;
        // The two leading terms of (a - centre)^p are a^p - p*centre*a^(p-1).
        Centring candidate{power.base, multiply(lower.row, reciprocal(upper.row))};
        candidate.centre.coefficient /= -p;
        if (derivation.varies_with_slots(names_in(candidate.centre))) result.push_back(candidate);
      }
    }
  }
  return result;
}

/// A maximum of the atom itself is the best centre, then any reduction by itself.
int rank_of(const Derivation& derivation, const Centring& candidate) {
  const Monomial& centre = candidate.centre;
  const bool plain = centre.powers.size() == 1 && centre.powers[0].exponent == 1 && centre.exponent.empty() &&
                     centre.coefficient == 1 && centre.powers[0].base.as<Variable>();
  if (!plain) return 2;
  const Carried* slot = derivation.find_slot(centre.powers[0].base.as<Variable>()->name);
  return slot && slot->op != Reduction::sum && slot->term == candidate.atom ? 0 : 1;
}

}  // namespace

std::optional<Centring> centre_terms(const Derivation& derivation, std::vector<SplitTerm>& terms) {
  std::optional<Centring> best;
  std::vector<SplitTerm> best_terms;
  int best_rank = 0;
  for (const Centring& candidate : candidates(derivation, terms)) {
    const auto rewritten = centred(terms, candidate, derivation.signs);
    if (!rewritten || rewritten->size() >= terms.size()) continue;
    const int rank = rank_of(derivation, candidate);
    const bool better =
        !best || rewritten->size() < best_terms.size() || (rewritten->size() == best_terms.size() && rank < best_rank);
    if (!better) continue;
    best = candidate;
    best_terms = *rewritten;
    best_rank = rank;
  }
  if (best) terms = std::move(best_terms);
  return best;
}

}  // namespace astatide
