#include <algorithm>

#include "compiler/rewrite/derivation.h"
#include "compiler/rewrite/expression_limit.h"

namespace astatide {

namespace {

class SumDeriver {
 public:
  SumDeriver(Derivation& derivation, const Stage& stage, bool takes_name)
      : derivation_(derivation), stage_(stage), takes_name_(takes_name) {}

  void run() {
    Expr whole = derivation_.over_slots(stage_.term);
    check_expression_size(whole, "stage '" + stage_.name + "'", stage_.where);
    std::vector<SplitTerm> terms = split(whole);
    centring_ = centre_terms(derivation_, terms);
    if (const auto counted = with_running_count(whole)) {
      whole = *counted;
      terms = split(whole);
      centring_ = centre_terms(derivation_, terms);
    }

    Expr value(0);
    std::set<std::string> used;
    for (SplitTerm& term : terms) {
      bound_exponent(derivation_, stage_, term);
      const std::optional<std::size_t> slot = slots_for(term).front();
      if (!slot) continue;
      used.insert(derivation_.slots[*slot].name);
      value = value + variable(derivation_.slots[*slot].name) * to_expr(term.row);
    }
    check_number(used.size());
    name_the_only_slot(value);
    derivation_.stage_values.insert_or_assign(stage_.name, value);
  }

 private:
  std::vector<SplitTerm> split(const Expr& whole) const {
    std::vector<SplitTerm> terms;
    for (const Monomial& term : normal_form(whole, derivation_.signs))
      terms.push_back(split_term(derivation_, stage_, term, whole));
    return terms;
  }

  /// A centre such as sum/Sk is a mean only when the whole axis has been seen, and far from the elements before. The
  /// number of elements seen so far is Sk in the end and makes it a mean all along.
  std::optional<Expr> with_running_count(const Expr& whole) {
    const auto extent = derivation_.cascade.axis_extents.find(derivation_.cascade.axis);
    if (!centring_ || extent == derivation_.cascade.axis_extents.end()) return std::nullopt;
    const auto* length = extent->second.as<Variable>();
    if (!length || !names_in(centring_->centre).contains(length->name)) return std::nullopt;
    Carried count;
    count.op = Reduction::sum;
    count.along = count.held = constant(1);
    count.where = stage_.where;
    Carried& added = derivation_.slots[derivation_.add_slot(std::move(count))];
    if (added.name.empty()) {
      added.name = derivation_.fresh.fresh("n");
      derivation_.signs.nonnegative.insert(added.name);
      derivation_.notes.push_back("stage '" + stage_.name + "': " + length->name + " is counted as " + added.name +
                                  ", so that the centre is a mean in every step");
    }
    return with_count(whole, *length, variable(added.name));
  }

  /// Replaces the length in sums and products, not inside indices and conditions.
  static Expr with_count(const Expr& e, const Variable& length, const Expr& count) {
    if (const auto* v = e.as<Variable>()) return v->name == length.name ? count : e;
    const auto* c = e.as<Call>();
    if (!c) return e;
    switch (c->op) {
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div:
      case Op::neg:
      case Op::sqrt:
      case Op::absorb:
      case Op::safe: {
        std::vector<Expr> operands;
        for (const Expr& operand : c->args) operands.push_back(with_count(operand, length, count));
        return with_children(e, std::move(operands));
      }
      default:
        return e;
    }
  }

  void check_number(std::size_t used) const {
    if (static_cast<int>(used) <= derivation_.options.max_slots) return;
    throw UserError(stage_.where, "stage '" + stage_.name + "': needs " + std::to_string(used) +
                                      " carried sums, more than the limit " +
                                      std::to_string(derivation_.options.max_slots));
  }

  /// Slots of the term's power of the centred atom, and of all powers below it, highest first.
  std::vector<std::optional<std::size_t>> slots_for(const SplitTerm& term) {
    std::vector<std::optional<std::size_t>> slots;
    for (int power = 0; power <= term.power; ++power) {
      Carried slot;
      slot.op = Reduction::sum;
      slot.along = term.along;
      slot.held = term.held;
      slot.exponent_along = term.exponent_along;
      slot.exponent_row = term.exponent_row;
      slot.indicator = term.indicator;
      slot.indicated = term.indicated;
      slot.power = power;
      slot.lower = slots;
      if (power > 0) {
        slot.centred = centring_->atom;
        slot.centre = centring_->centre;
      }
      slot.where = stage_.where;
      if (const auto present = derivation_.presence(stage_, names_read_by(slot), 1)) {
        slot.along = multiply(slot.along, power_of(variable(*present)));
      }
      slot.extra = extra_of(slot);
      slots.insert(slots.begin(), is_identically_zero(slot) ? std::nullopt : std::optional(add(std::move(slot))));
    }
    return slots;
  }

  static std::set<std::string> names_read_by(const Carried& slot) {
    std::set<std::string> names = names_in(slot.along);
    names.merge(names_in(slot.exponent_along));
    if (slot.power > 0) names.merge(free_variables(*slot.centred));
    if (slot.indicated) names.merge(free_variables(*slot.indicated));
    return names;
  }

  std::size_t add(Carried slot) {
    slot.name = "";
    const bool nonnegative = is_nonnegative(slot.along, derivation_.signs) && slot.power % 2 == 0;
    const std::size_t index = derivation_.add_slot(std::move(slot));
    Carried& added = derivation_.slots[index];
    if (added.name.empty()) {
      added.name = derivation_.fresh.fresh(stage_.name + "_acc");
      created_.push_back(index);
      if (nonnegative) derivation_.signs.nonnegative.insert(added.name);
    }
    return index;
  }

  /// A slot that is the stage's value takes its name, unless that is the name of an output.
  void name_the_only_slot(Expr& value) {
    if (!takes_name_ || created_.size() != 1) return;
    Carried& slot = derivation_.slots[created_[0]];
    if (!(value == variable(slot.name))) return;
    const bool nonnegative = derivation_.signs.nonnegative.erase(slot.name) != 0;
    slot.name = stage_.name;
    if (nonnegative) derivation_.signs.nonnegative.insert(slot.name);
    value = variable(slot.name);
  }

  std::vector<std::string> extra_of(const Carried& slot) const {
    std::set<std::string> names = names_in(slot.along);
    names.merge(names_in(slot.exponent_along));
    names.merge(names_in(slot.centre));
    if (slot.centred) names.merge(free_variables(*slot.centred));
    std::vector<std::string> extra;
    for (const std::string& axis : stage_.extra) {
      const bool by_slot = std::any_of(derivation_.slots.begin(), derivation_.slots.end(), [&](const Carried& other) {
        return names.contains(other.name) &&
               std::find(other.extra.begin(), other.extra.end(), axis) != other.extra.end();
      });
      if (names.contains(axis) || by_slot) extra.push_back(axis);
    }
    return extra;
  }

  /// The sum of (a - centre) where centre is the weighted mean: a combination of carried slots that cancels.
  bool is_identically_zero(const Carried& slot) {
    if (slot.power == 0) return false;
    Polynomial sum;
    double binomial = 1;
    for (int i = slot.power; i >= 0; --i) {
      Carried raw = slot;
      raw.power = 0;
      raw.along = multiply(slot.along, raise({power_of(*slot.centred)}, i, derivation_.signs)[0]);
      if (const auto present = derivation_.presence(stage_, names_read_by(raw), 1)) {
        raw.along = multiply(raw.along, power_of(variable(*present)));
      }
      const Carried* carried = find_raw(raw);
      if (!carried) return false;
      Monomial minus_centre = slot.centre;
      minus_centre.coefficient = -minus_centre.coefficient;
      Monomial term =
          multiply(power_of(variable(carried->name)), raise({minus_centre}, slot.power - i, derivation_.signs)[0]);
      term.coefficient *= binomial;
      sum = astatide::add(sum, {term});
      binomial = binomial * i / (slot.power - i + 1);
    }
    if (!sum.empty()) return false;
    derivation_.notes.push_back("stage '" + stage_.name + "': the sum of " + to_string(*slot.centred) + " - " +
                                to_string(to_expr(slot.centre)) +
                                " is identically 0 at its own reference and is not carried");
    return true;
  }

  const Carried* find_raw(const Carried& raw) const {
    for (const Carried& other : derivation_.slots) {
      if (other.op == Reduction::sum && other.power == 0 && same_factors(other.along, raw.along) &&
          same_factors(other.held, raw.held) && other.indicator == raw.indicator &&
          equal(other.exponent_along, raw.exponent_along) && equal(other.exponent_row, raw.exponent_row)) {
        return &other;
      }
    }
    return nullptr;
  }

  Derivation& derivation_;
  const Stage& stage_;
  const bool takes_name_;
  std::optional<Centring> centring_;
  std::vector<std::size_t> created_;
};

}  // namespace

void derive_sum(Derivation& derivation, const Stage& stage, bool takes_name) {
  SumDeriver(derivation, stage, takes_name).run();
}

}  // namespace astatide
