#pragma once

#include "compiler/rewrite/derivation.h"

namespace astatide {

/// The old value of a slot at its new references: scaled by the ratio of what is kept in the loop, shifted by the
/// binomial formula between the centres. See README.md. Free of NaN for empty states: a reference that is
/// minus infinity scales by 0, and a zero sum absorbs what multiplies it.
Expr write_move(const Derivation& derivation, const Carried& slot);

/// Slots whose change makes the slot move, in order.
std::vector<std::string> references_of(const Derivation& derivation, const Carried& slot);

/// log2 of the factor by which sums shrink when the reference `slot` grows to slot_new; none where it stands in no
/// exponent.
std::optional<Expr> growth_of(const Derivation& derivation, const Carried& slot);

/// Atoms that can be minus infinity, read through safe().
Polynomial with_safe_references(const Derivation& derivation, const Polynomial& p);
/// The centre as an expression that is finite for an empty state.
Expr centre_of(const Derivation& derivation, const Monomial& centre);

}  // namespace astatide
