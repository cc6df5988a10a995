#include <algorithm>

#include "compiler/rewrite/derivation.h"
#include "compiler/rewrite/expression_limit.h"
#include "compiler/rewrite/write_move.h"

namespace astatide {

namespace {

class ExtremumDeriver {
 public:
  ExtremumDeriver(Derivation& derivation, const Stage& stage, bool takes_name)
      : derivation_(derivation), stage_(stage), takes_name_(takes_name) {}

  void run() {
    const Expr whole = derivation_.over_slots(stage_.term);
    check_expression_size(whole, "stage '" + stage_.name + "'", stage_.where);
    if (!derivation_.varies_with_slots(free_variables(whole))) {
      set_value(variable(add(whole)));
      return;
    }
    if (take_indicator(whole)) return;
    const Polynomial terms = normal_form(whole, derivation_.signs);
    if (terms.size() == 1) {
      derive_product(terms[0], whole);
    } else {
      derive_sum_of_parts(terms, whole);
    }
  }

 private:
  void set_value(const Expr& value) { derivation_.stage_values.insert_or_assign(stage_.name, value); }

  std::string add(const Expr& term, const std::string& indicator = "", std::optional<Expr> indicated = {}) {
    Carried slot;
    slot.op = stage_.op;
    slot.term = term;
    std::set<std::string> names = free_variables(term);
    if (indicated) names.merge(free_variables(*indicated));
    if (const auto present = derivation_.presence(stage_, names, 0)) slot.term = term + variable(*present);
    slot.indicator = indicator;
    slot.indicated = std::move(indicated);
    slot.extra = stage_.extra;
    slot.where = stage_.where;
    const std::size_t index = derivation_.add_slot(std::move(slot));
    Carried& added = derivation_.slots[index];
    if (added.name.empty()) {
      const bool is_value =
          !derivation_.varies_with_slots(free_variables(derivation_.over_slots(stage_.term))) || added.indicated;
      added.name = takes_name_ && is_value ? stage_.name : derivation_.fresh.fresh(stage_.name + "_acc");
      const Polynomial form = normal_form(added.term, derivation_.signs);
      if (form.size() == 1 && is_nonnegative(form[0], derivation_.signs)) {
        derivation_.signs.nonnegative.insert(added.name);
      }
    }
    return added.name;
  }

  /// select(a == r, x, unit): the extremum of x where a is at its own extremum, as in an argmax.
  bool take_indicator(const Expr& whole) {
    if (!whole.is_call(Op::select)) return false;
    const auto& args = whole.as<Call>()->args;
    if (!args[2].is_constant(unit_of(stage_.op)) || !args[0].is_call(Op::eq)) return false;
    if (derivation_.varies_with_slots(free_variables(args[1]))) return false;
    // The indicator of a sum says the same: let it find the reference.
    const SplitTerm split = split_term(derivation_, stage_, power_of(select(args[0], Expr(1), Expr(0))), whole);
    if (split.indicator.empty()) return false;
    set_value(variable(add(args[1], split.indicator, split.indicated)));
    return true;
  }

  /// max of a(x)*h(r) is h(r) * max a(x) for h >= 0.
  void derive_product(const Monomial& term, const Expr& whole) {
    Monomial along = constant(term.coefficient), row = constant(1);
    const auto is_row = [&](const Expr& part, const std::set<std::string>& names) {
      const bool with_slots = derivation_.varies_with_slots(names);
      if (with_slots && derivation_.varies_along(names)) refuse_mixed(derivation_, stage_, part, whole);
      return with_slots;
    };
    for (const Power& power : term.powers) {
      Monomial& side = is_row(power.base, free_variables(power.base)) ? row : along;
      side = multiply(side, power_of(power.base, power.exponent));
    }
    for (const Monomial& m : term.exponent) {
      Monomial factor = constant(1);
      factor.exponent = {m};
      Monomial& side = is_row(exponential({m}), names_in(m)) ? row : along;
      side = multiply(side, factor);
    }
    if (!is_nonnegative(row, derivation_.signs)) {
      throw UserError(stage_.where, "stage '" + stage_.name + "': " + std::string(name_of(stage_.op)) +
                                        " of a(x)*h(r) distributes only if h > 0, and " + to_string(to_expr(row)) +
                                        " is not known to be positive");
    }
    set_value(variable(add(to_expr(along))) * to_expr(row));
  }

  /// max of a(x) + b(r) is b(r) + max a(x).
  void derive_sum_of_parts(const Polynomial& terms, const Expr& whole) {
    Polynomial along, row;
    for (const Monomial& term : terms) {
      const std::set<std::string> names = names_in(term);
      const bool with_slots = derivation_.varies_with_slots(names);
      if (with_slots && derivation_.varies_along(names)) refuse_mixed(derivation_, stage_, to_expr(term), whole);
      (with_slots ? row : along).push_back(term);
    }
    // Of an empty row the maximum is -inf, and -inf - (-inf) would be NaN.
    set_value(variable(add(to_expr(along))) + to_expr(with_safe_references(derivation_, row)));
  }

  Derivation& derivation_;
  const Stage& stage_;
  const bool takes_name_;
};

}  // namespace

void derive_extremum(Derivation& derivation, const Stage& stage, bool takes_name) {
  ExtremumDeriver(derivation, stage, takes_name).run();
}

}  // namespace astatide
