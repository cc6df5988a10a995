#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/rewrite/fresh_names.h"
#include "compiler/rewrite/normal_form.h"
#include "compiler/rewrite/recurrence.h"

namespace astatide {

// Shared by the files of derive_online: derive_sum, derive_extremum, centre, write_recurrence.

/// A carried sum, maximum or minimum before it is written down. The contribution of an element is
///
///   along * held * (centred - centre)^power * exp(exponent_along + exponent_row)       (sum)
///   term, or, with an indicator, select(indicated, term, unit)                          (max, min)
struct Carried {
  std::string name;
  Reduction op = Reduction::sum;
  Monomial along;               // varies along the axis; coefficient 1
  Polynomial exponent_along;    // bounded above by the reference in exponent_row
  Polynomial exponent_row;      // over references
  Monomial held;                // negative powers of references, which keep the term in range
  std::optional<Expr> centred;  // an atom that varies along the axis
  Monomial centre;              // over references
  int power = 0;
  std::vector<std::optional<std::size_t>>
      lower;              // slots of the powers below, from power - 1 down to 0; none: identically 0
  std::string indicator;  // the reference r of select(a == r, .., ..)
  std::optional<Expr> indicated;
  Expr term;  // max, min
  std::vector<std::string> extra;
  Location where;
};

/// One term of a stage, taken apart.
struct SplitTerm {
  Monomial along = constant(1);
  Monomial row = constant(1);  // deferred to finalize; holds the coefficient
  Monomial held = constant(1);
  Polynomial exponent_along, exponent_row;
  std::string indicator;
  std::optional<Expr> indicated;
  int power = 0;  // of the centred atom
};

/// What is known while stages are derived one after the other.
struct Derivation {
  Derivation(const Cascade& of, const DeriveOptions& with) : cascade(of), options(with), fresh(names_of(of)) {
    signs.nonnegative = of.positive;
  }

  Cascade cascade;  // elements join it
  const DeriveOptions& options;
  FreshNames fresh;
  Signs signs;
  std::vector<Carried> slots;
  std::map<std::string, Expr> stage_values;      // over slots
  std::map<std::string, Expr> inlined_elements;  // over the elements that stay
  std::vector<std::string> notes;

  bool is_slot(const std::string& name) const;
  const Carried* find_slot(const std::string& name) const;
  /// Reads an element or the axis itself.
  bool varies_along(const std::set<std::string>& names) const;
  /// Reads a slot.
  bool varies_with_slots(const std::set<std::string>& names) const;
  std::vector<std::string> slots_in(const std::set<std::string>& names) const;

  /// Over slots, and with inlined elements written out.
  Expr over_slots(const Expr& e) const;
  /// Equal slots are shared. Returns the index.
  std::size_t add_slot(Carried slot);

  /// Predicates of the elements among `names`: where one is false, a term that reads these names is absent.
  std::vector<Expr> predicates_of(const std::set<std::string>& names) const;
  /// The element that holds `value` and is absent where one of the stage's predicates that `names` do not carry is
  /// false. Taking a term apart can leave a part that no longer reads what makes it absent. None: the names carry all.
  std::optional<std::string> presence(const Stage& stage, const std::set<std::string>& names, int value);
};

/// Takes a term apart into what varies along the axis, what depends on references, and the exponential that joins them.
/// Throws UserError where a factor depends on both and is neither.
SplitTerm split_term(const Derivation& derivation, const Stage& stage, const Monomial& term, const Expr& whole);

/// Makes sure that the exponential of `term` cannot overflow: finds a reference that bounds it, or inserts one.
void bound_exponent(Derivation& derivation, const Stage& stage, SplitTerm& term);

struct Centring {
  Expr atom;        // varies along the axis
  Monomial centre;  // over references
};
/// Replaces an atom a by (a - centre) + centre where that leaves fewer terms; they then hold powers of a - centre.
std::optional<Centring> centre_terms(const Derivation& derivation, std::vector<SplitTerm>& terms);

void derive_sum(Derivation& derivation, const Stage& stage, bool takes_name);
void derive_extremum(Derivation& derivation, const Stage& stage, bool takes_name);

/// The factor c >= 0, constant along a row, with exponent == c * bound; none where there is none.
std::optional<Monomial> positive_ratio(const Derivation& derivation, const Polynomial& exponent,
                                       const Polynomial& bound);

/// "s and v" of names that vary along the axis.
std::string names_along(const Derivation& derivation, const Expr& e);
[[noreturn]] void refuse_mixed(const Derivation& derivation, const Stage& stage, const Expr& part, const Expr& whole);

/// Slots, weights and finalized outputs in the form that later stages read.
Recurrence write_recurrence(Derivation& derivation);

}  // namespace astatide
