#include <algorithm>
#include <cmath>

#include "compiler/rewrite/derivation.h"

namespace astatide {

namespace {

// Moments of interest have a handful of terms; what has many is refused for its number of sums anyway.
constexpr std::size_t kMaxTermsToCentre = 48;
constexpr std::size_t kMaxCandidates = 48;

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
        if (!derivation.varies_with_slots(names_in(candidate.centre))) continue;
        const bool known = std::any_of(result.begin(), result.end(), [&](const Centring& other) {
          return other.atom == candidate.atom && other.centre.coefficient == candidate.centre.coefficient &&
                 same_factors(other.centre, candidate.centre);
        });
        if (!known) result.push_back(candidate);
        if (result.size() >= kMaxCandidates) return result;
      }
    }
  }
  return result;
}

/// m = max a, or that widened by row constants: max(m, sink).
bool is_extremum_of(const Derivation& derivation, const Expr& reference, const Polynomial& atom) {
  if (const auto* v = reference.as<Variable>()) {
    const Carried* slot = derivation.find_slot(v->name);
    return slot && slot->op != Reduction::sum && equal(normal_form(slot->term, derivation.signs), atom);
  }
  if (!reference.is_call(Op::max) && !reference.is_call(Op::min)) return false;
  const auto& args = reference.as<Call>()->args;
  return is_extremum_of(derivation, args[0], atom) || is_extremum_of(derivation, args[1], atom);
}

/// Without the elements that only say what is present.
Monomial without_presence(const Derivation& derivation, const Monomial& along) {
  Monomial result = constant(along.coefficient);
  for (const Power& power : along.powers) {
    const auto* v = power.base.as<Variable>();
    const bool presence = v && std::any_of(derivation.cascade.elements.begin(), derivation.cascade.elements.end(),
                                           [&](const Element& element) {
                                             return element.name == v->name && element.value.is_constant(1);
                                           });
    if (!presence) result = multiply(result, power_of(power.base, power.exponent));
  }
  return result;
}

/// sum of w*a over sum of w, or over the length of the axis.
bool is_mean_of(const Derivation& derivation, const Monomial& centre, const Expr& atom) {
  if (centre.powers.size() != 2 || !centre.exponent.empty()) return false;
  const bool first_above = centre.powers[0].exponent == 1;
  const Power& above = centre.powers[first_above ? 0 : 1];
  const Power& below = centre.powers[first_above ? 1 : 0];
  const auto* sum = above.base.as<Variable>();
  const auto* count = below.base.as<Variable>();
  if (above.exponent != 1 || below.exponent != -1 || !sum || !count) return false;
  const Carried* of_atom = derivation.find_slot(sum->name);
  if (!of_atom || of_atom->op != Reduction::sum || of_atom->power != 0) return false;
  const Monomial with_atom = without_presence(derivation, of_atom->along);
  const Carried* of_one = derivation.find_slot(count->name);
  if (!of_one) {
    const auto extent = derivation.cascade.axis_extents.find(derivation.cascade.axis);
    return extent != derivation.cascade.axis_extents.end() && extent->second == below.base &&
           same_factors(with_atom, power_of(atom)) && of_atom->exponent_along.empty();
  }
  return of_one->op == Reduction::sum && of_one->power == 0 && same_factors(of_one->held, of_atom->held) &&
         equal(of_one->exponent_along, of_atom->exponent_along) && equal(of_one->exponent_row, of_atom->exponent_row) &&
         same_factors(with_atom, multiply(without_presence(derivation, of_one->along), power_of(atom)));
}

/// 0 for a maximum of the atom itself, 1 for a mean of it, none for anything else: another reference may lie far from
/// the atom while it grows, and then (a - centre) has no digits left.
std::optional<int> rank_of(const Derivation& derivation, const Centring& candidate) {
  const Monomial& centre = candidate.centre;
  if (centre.coefficient != 1) return std::nullopt;
  const bool plain = centre.powers.size() == 1 && centre.powers[0].exponent == 1 && centre.exponent.empty();
  if (plain && is_extremum_of(derivation, centre.powers[0].base, normal_form(candidate.atom, derivation.signs)))
    return 0;
  if (is_mean_of(derivation, centre, candidate.atom)) return 1;
  return std::nullopt;
}

}  // namespace

std::optional<Centring> centre_terms(const Derivation& derivation, std::vector<SplitTerm>& terms) {
  if (terms.size() > kMaxTermsToCentre) return std::nullopt;
  std::optional<Centring> best;
  std::vector<SplitTerm> best_terms;
  int best_rank = 0;
  for (const Centring& candidate : candidates(derivation, terms)) {
    const std::optional<int> rank = rank_of(derivation, candidate);
    if (!rank) continue;
    const auto rewritten = centred(terms, candidate, derivation.signs);
    if (!rewritten || rewritten->size() >= terms.size()) continue;
    const bool better =
        !best || rewritten->size() < best_terms.size() || (rewritten->size() == best_terms.size() && *rank < best_rank);
    if (!better) continue;
    best = candidate;
    best_terms = *rewritten;
    best_rank = *rank;
  }
  if (best) terms = std::move(best_terms);
  return best;
}

}  // namespace astatide
