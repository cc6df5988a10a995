#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/rewrite/cascade.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A named value of the streaming form that varies along the axis and reads slots: exp(A - m). It reads their values
/// after the update of its own tile. Named after the definition that it replaces (P), so that a schedule can place it.
struct Weight {
  std::string name;
  Expr value;  // over elements, slots (new), weights before it, axes, reads
  /// All definitions that it replaces, up to factors that are constant along the row; `name` among them unless it is
  /// made.
  std::vector<std::string> replaces;
  Location where;
};

/// One carried number of the streaming form (for each row, and each value of `extra`).
///
/// Absorbing a tile T:   slot' = move(slots, slots')  (op)  (op) over x in T of term(x, slots')
/// where slots' of the references are computed first. See README.md.
struct Slot {
  /// That of the stage where the slot is the stage's value and the stage no output; else STAGE_acc, STAGE_acc_2, ..
  std::string name;
  Reduction op = Reduction::sum;
  std::vector<std::string> extra;

  /// Over elements, weights, axes, row constants, and slots with their new values. Where `factor` is set the
  /// contribution of an element is term * factor, and term does not vary with `extra`: the product of an (i,j) and a
  /// (j,e) tile.
  Expr term;
  std::optional<Expr> factor;  // a Read, such as V[b,h*Hkv/Hq,j,e]
  bool masked = false;         // as in Stage: a select on the predicates of the elements read, and on the axis' bounds

  /// The old value moved to the new references: over `name`, other slots (old values), and new values written with the
  /// suffix of new_value_name(). Equal to `name` itself where nothing needs moving.
  Expr move;
  /// Slots whose change makes this one move; empty: never moves.
  std::vector<std::string> references;
  /// Some later term or move reads this slot inside the loop, so it must be whole (summed over lanes) in every
  /// iteration.
  bool read_in_loop = false;
  /// For a reference: any value in place of the extremum leaves every output unchanged, when the state moves with it
  /// (compiler/rewrite/README.md).
  bool gauge = false;
  /// For an extremum that is a reference and no gauge: an output that changes with it.
  std::string shown_by;
  /// For a reference inside exponents: log2 of the factor by which other slots shrink when it grows to candidate
  /// `name`_new. None where it also scales terms outside of exponents, which this would not bound.
  std::optional<Expr> growth;
  /// The sum whose term is the exponential weight itself, so that an overflow of the weight shows in it; for a gauge
  /// reference all of whose sums have this one weight.
  std::string witness;
  Location where;
};

std::string new_value_name(const std::string& slot);

/// The streaming form that the algebra derives from a cascade. Data: no later stage asks what the recurrence is.
struct Recurrence {
  std::string axis;
  std::vector<std::string> rows;
  std::vector<Element> elements;
  std::vector<Weight> weights;
  std::vector<Slot> slots;       // references before the slots that read them
  std::vector<RowValue> values;  // finalize: outputs over slots, in order
  std::map<std::string, Expr> axis_extents;
  std::vector<std::string> notes;  // what was inserted, dropped or deferred, for `emit --stage online`
};

struct DeriveOptions {
  /// Insert a maximum under an exponential that nothing bounds.
  bool stabilise = true;
  int max_slots = 8;
};

/// Derives init, update, rescale, combine and finalize. Throws UserError with the step, the reason and the place where
/// no streaming form exists or is found. See compiler/rewrite/README.md.
Recurrence derive_online(const Cascade& cascade, const DeriveOptions& options = {});

/// init, step, combine and finalize of a recurrence, one a line.
std::string print_recurrence(const Recurrence& recurrence);

}  // namespace astatide
