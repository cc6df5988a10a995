#include <algorithm>
#include <cmath>

#include "compiler/rewrite/absent.h"
#include "compiler/rewrite/derivation.h"
#include "compiler/rewrite/finalize.h"
#include "compiler/rewrite/gauge.h"
#include "compiler/rewrite/write_move.h"
#include "compiler/rewrite/write_weights.h"

namespace astatide {

namespace {

class RecurrenceWriter {
 public:
  explicit RecurrenceWriter(Derivation& derivation) : derivation_(derivation), weights_(derivation) {}

  Recurrence run() {
    const Cascade& cascade = derivation_.cascade;
    result_.axis = cascade.axis;
    result_.rows = cascade.rows;
    result_.elements = cascade.elements;
    result_.axis_extents = cascade.axis_extents;
    for (const Carried& carried : derivation_.slots) result_.slots.push_back(slot_of(carried));
    result_.weights = weights_.take();
    share_weights();
    result_.values = finalize_values(derivation_);
    result_.notes = derivation_.notes;
    drop_unread_elements();
    find_slots_read_in_loop();
    choose_absent_values(result_);
    find_gauges(result_);
    for (Slot& slot : result_.slots) {
      if (slot.gauge) slot.witness = witness_of(slot.name);
    }
    return std::move(result_);
  }

 private:
  Slot slot_of(const Carried& carried) {
    Slot slot;
    slot.name = carried.name;
    slot.op = carried.op;
    slot.extra = carried.extra;
    slot.where = carried.where;
    slot.move = write_move(derivation_, carried);
    slot.references = references_of(derivation_, carried);
    slot.growth = growth_of(derivation_, carried);
    if (carried.op == Reduction::sum) {
      WrittenTerm written = weights_.term_of(carried);
      slot.term = written.term;
      slot.factor = written.factor;
    } else {
      slot.term =
          carried.indicated ? select(*carried.indicated, carried.term, Expr(unit_of(carried.op))) : carried.term;
    }
    return slot;
  }

  /// A weight that was made for a product is also the term of a sum that has the same one.
  void share_weights() {
    for (Slot& slot : result_.slots) {
      for (const Weight& weight : result_.weights) {
        if (slot.term == weight.value && !slot.term.as<Variable>()) slot.term = variable(weight.name);
      }
    }
  }

  /// Everything that is evaluated inside the loop.
  std::vector<Expr> loop_expressions(const Slot& slot) const {
    std::vector<Expr> all{slot.move, slot.term};
    for (std::size_t i = result_.weights.size(); i-- > 0;) {
      if (free_variables(all[1]).contains(result_.weights[i].name)) all.push_back(result_.weights[i].value);
      for (std::size_t k = 2; k + 1 < all.size(); ++k) {
        if (free_variables(all[k]).contains(result_.weights[i].name)) all.push_back(result_.weights[i].value);
      }
    }
    return all;
  }

  void find_slots_read_in_loop() {
    for (const Slot& reader : result_.slots) {
      std::set<std::string> names;
      for (const Expr& e : loop_expressions(reader)) names.merge(free_variables(e));
      for (Slot& slot : result_.slots) {
        const bool reads = names.contains(slot.name) || names.contains(new_value_name(slot.name));
        if (reads && slot.name != reader.name) slot.read_in_loop = true;
      }
    }
  }

  void drop_unread_elements() {
    std::set<std::string> read;
    for (const Slot& slot : result_.slots) {
      read.merge(free_variables(slot.term));
      if (slot.factor) read.merge(free_variables(*slot.factor));
    }
    for (const Weight& weight : result_.weights) read.merge(free_variables(weight.value));
    for (std::size_t i = result_.elements.size(); i-- > 0;) {
      const Element& element = result_.elements[i];
      if (!read.contains(element.name)) {
        result_.elements.erase(result_.elements.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      read.merge(free_variables(element.value));
      for (const Expr& predicate : element.where_predicates) read.merge(free_variables(predicate));
    }
  }

  /// The exponentials with this reference are one and the same.
  bool has_one_weight(const std::string& reference) const {
    const Carried* first = nullptr;
    for (const Carried& carried : derivation_.slots) {
      if (!names_in(carried.exponent_row).contains(reference)) continue;
      if (!first) first = &carried;
      if (!equal(carried.exponent_row, first->exponent_row) || !equal(carried.exponent_along, first->exponent_along))
        return false;
    }
    return first != nullptr;
  }

  std::string witness_of(const std::string& reference) const {
    if (!has_one_weight(reference)) return "";
    for (const Slot& slot : result_.slots) {
      const auto* term = slot.term.as<Variable>();
      if (!term || slot.op != Reduction::sum || slot.factor) continue;
      for (const Weight& weight : result_.weights) {
        if (weight.name != term->name || !free_variables(weight.value).contains(reference)) continue;
        if (weight.value.is_call(Op::exp) || weight.value.is_call(Op::exp2)) return slot.name;
      }
    }
    return "";
  }

  Derivation& derivation_;
  WeightWriter weights_;
  Recurrence result_;
};

}  // namespace

Recurrence write_recurrence(Derivation& derivation) { return RecurrenceWriter(derivation).run(); }

}  // namespace astatide
