#include "compiler/rewrite/part_states.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/rewrite/guard.h"
#include "compiler/rewrite/isolate.h"
#include "compiler/rewrite/merge_probe.h"
#include "compiler/rewrite/normal_form.h"
#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

constexpr int kMostTries = 500;

std::vector<std::string> axes_beyond(const std::vector<std::string>& rows, const std::vector<std::string>& indices) {
  std::vector<std::string> out;
  for (const std::string& axis : indices)
    if (!contains(rows, axis)) out.push_back(axis);
  std::sort(out.begin(), out.end());
  return out;
}

Expr simplified(const Expr& e) {
  try {
    return to_expr(normal_form(e, {}));
  } catch (const ExpansionTooLarge&) {
    return e;
  }
}

/// Solves what finalize says for the slots.
class Solver {
 public:
  explicit Solver(const Recurrence& recurrence) : recurrence_(recurrence) {}

  std::optional<std::map<std::string, Expr>> run() {
    open_.clear();
    for (const Slot& slot : recurrence_.slots) open_.push_back(slot.name);
    tries_ = 0;
    return from({});
  }

  /// Slots that the best try has left open.
  const std::vector<std::string>& open() const { return open_; }

 private:
  using Known = std::map<std::string, Expr>;

  std::optional<Known> from(Known known) {
    if (++tries_ > kMostTries) return std::nullopt;
    while (step(known)) {
    }
    std::vector<std::string> open;
    for (const Slot& slot : recurrence_.slots)
      if (!known.contains(slot.name)) open.push_back(slot.name);
    if (open.empty()) {
      known = guarded_states(known);
      if (!merges_alike(recurrence_, {known, {}})) return std::nullopt;
      return known;
    }
    if (open.size() < open_.size()) open_ = open;
    // Any value of a gauge is as right: the one at which its witness is 1, or that of an output.
    for (const Slot& slot : recurrence_.slots) {
      if (!slot.gauge || known.contains(slot.name)) continue;
      if (!slot.witness.empty() && !known.contains(slot.witness))
        if (auto all = from(with(known, slot.witness, Expr(1)))) return all;
      for (const RowValue& output : recurrence_.values)
        if (axes_beyond(recurrence_.rows, output.indices).empty())
          if (auto all = from(with(known, slot.name, variable(output.name)))) return all;
    }
    return std::nullopt;
  }

  static Known with(Known known, const std::string& slot, const Expr& value) {
    known.insert_or_assign(slot, value);
    return known;
  }

  /// Finds one more slot from an output that reads no other one whose value is open.
  bool step(Known& known) const {
    for (const RowValue& output : recurrence_.values) {
      const Expr value = substitute(output.value, known);
      const Slot* open = nullptr;
      bool several = false;
      for (const Slot& slot : recurrence_.slots) {
        if (known.contains(slot.name) || !free_variables(value).contains(slot.name)) continue;
        several = open != nullptr;
        open = &slot;
        if (several) break;
      }
      if (open == nullptr || several) continue;
      std::vector<std::string> extra = open->extra;
      std::sort(extra.begin(), extra.end());
      if (axes_beyond(recurrence_.rows, output.indices) != extra) continue;
      for (const Expr& form : {value, simplified(value)})
        if (const auto found = isolate(open->name, form, variable(output.name))) {
          known.insert_or_assign(open->name, simplified(*found));
          return true;
        }
    }
    return false;
  }

  /// Outputs of empty parts can be infinite, or 0.
  Known guarded_states(Known known) const {
    GuardFacts facts;
    for (const RowValue& output : recurrence_.values) {
      if (axes_beyond(recurrence_.rows, output.indices).empty()) facts.extrema.insert(output.name);
      if (value_of_empty_row(recurrence_, output) == 0) facts.totals.insert(output.name);
    }
    for (auto& [slot, value] : known) value = guarded(value, facts);
    return known;
  }

  const Recurrence& recurrence_;
  std::vector<std::string> open_;
  int tries_ = 0;
};

const Slot& slot_named(const Recurrence& recurrence, const std::string& name) {
  return *std::find_if(recurrence.slots.begin(), recurrence.slots.end(),
                       [&](const Slot& slot) { return slot.name == name; });
}

/// "l = sum(j, P)"
std::string described(const Recurrence& recurrence, const std::string& name) {
  const Slot& slot = slot_named(recurrence, name);
  const Expr term = slot.factor ? slot.term * *slot.factor : slot.term;
  return name + " = " + std::string(name_of(slot.op)) + "(" + recurrence.axis + ", " + to_string(term) + ")";
}

std::string joined(const std::vector<std::string>& words, const std::string& last) {
  std::string out;
  for (std::size_t n = 0; n < words.size(); ++n) out += (n == 0 ? "" : n + 1 == words.size() ? last : ", ") + words[n];
  return out;
}

/// Outputs that would do, added one by one: the logarithm of a whole weight, or what is open itself.
std::vector<RowValue> missing_outputs(const Recurrence& recurrence, const std::vector<std::string>& open) {
  const auto solves = [&](const std::vector<RowValue>& more) {
    Recurrence with_more = recurrence;
    with_more.values.insert(with_more.values.end(), more.begin(), more.end());
    return Solver(with_more).run().has_value();
  };
  std::vector<RowValue> candidates;
  const auto add = [&](const std::string& text, const Expr& value, const std::vector<std::string>& extra) {
    RowValue output;
    output.name = "output that is " + text;
    output.indices = recurrence.rows;
    output.indices.insert(output.indices.end(), extra.begin(), extra.end());
    output.value = value;
    candidates.push_back(std::move(output));
  };
  for (const Slot& slot : recurrence.slots)
    if (slot.gauge && !slot.witness.empty() && contains(open, slot.name))
      add(slot.name + " + log(" + slot.witness + ")", variable(slot.name) + log(variable(slot.witness)), {});
  for (const Slot& slot : recurrence.slots)
    for (const std::string& reference : slot.references)
      if (const std::string& witness = slot_named(recurrence, reference).witness;
          contains(open, slot.name) && !witness.empty() && witness != slot.name)
        add(slot.name + " / " + witness, absorb(variable(slot.name), Expr(1) / variable(witness)), slot.extra);
  for (const Slot& slot : recurrence.slots) add(slot.name, variable(slot.name), slot.extra);
  std::vector<RowValue> chosen;
  for (const RowValue& candidate : candidates) {
    chosen.push_back(candidate);
    if (!solves(chosen)) continue;
    for (std::size_t n = chosen.size(); n-- > 0;) {
      std::vector<RowValue> fewer = chosen;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(n));
      if (!fewer.empty() && solves(fewer)) chosen = std::move(fewer);
    }
    return chosen;
  }
  return {};
}

[[noreturn]] void refuse(const Recurrence& recurrence, const std::vector<std::string>& open) {
  std::vector<std::string> outputs, missing, notes;
  for (const RowValue& output : recurrence.values) outputs.push_back(output.name);
  for (const std::string& slot : open) missing.push_back(described(recurrence, slot));
  const std::vector<RowValue> more = missing_outputs(recurrence, open);
  std::set<std::string> explained(open.begin(), open.end());
  for (const RowValue& output : more) {
    std::string note = "an " + output.name + (more.size() > 1 ? " would help" : " would do");
    for (const Slot& slot : recurrence.slots)
      if (free_variables(output.value).contains(slot.name) && explained.insert(slot.name).second)
        note += ", with " + described(recurrence, slot.name);
    notes.push_back(note + (output.value.is_call(Op::add) ? "; logsumexp is of this form" : ""));
  }
  throw UserError(recurrence.values.front().where,
                  "parts can't be merged from " + joined(outputs, " and ") + ": " + joined(missing, " and ") +
                      " of a part can't be had from " + (outputs.size() == 1 ? "it" : "them"),
                  notes);
}

/// Parts have each a length of their own, and the whole another one.
void check_length_of_axis(const Recurrence& recurrence) {
  const std::set<std::string> lengths = free_variables(recurrence.axis_extents.at(recurrence.axis));
  const auto check = [&](const Expr& e, const std::string& what, const Location& where) {
    for (const std::string& name : free_variables(e))
      if (lengths.contains(name))
        throw UserError(where,
                        what + " reads " + name + ", the length of " + recurrence.axis +
                            ", which is one in a part and another in the whole",
                        {"count it: n = sum(" + recurrence.axis + ", 1), and make that an output too"});
  };
  for (const RowValue& output : recurrence.values) check(output.value, "output " + output.name, output.where);
  for (const Slot& slot : recurrence.slots) check(slot.move, "the move of " + slot.name, slot.where);
}

std::vector<std::string> lengths_in_terms(const Recurrence& recurrence) {
  const std::set<std::string> lengths = free_variables(recurrence.axis_extents.at(recurrence.axis));
  std::vector<std::string> notes;
  const auto note = [&](const Expr& e, const std::string& what) {
    for (const std::string& name : free_variables(e))
      if (lengths.contains(name))
        notes.push_back(what + " reads " + name + ": parts that are shorter than the whole have other values of it");
  };
  for (const Element& element : recurrence.elements) note(element.value, element.name);
  for (const Weight& weight : recurrence.weights) note(weight.value, weight.name);
  for (const Slot& slot : recurrence.slots) note(slot.term, "the term of " + slot.name);
  return notes;
}

}  // namespace

Expr move_of_part(const Slot& slot, const PartStates& states) {
  return transform(substitute(slot.move, states.of_slot), [](const Expr& e) {
    if (e.is_call(Op::mul)) return e.as<Call>()->args[0] * e.as<Call>()->args[1];
    if (e.is_call(Op::absorb) && e.as<Call>()->args[0].is_constant(1)) return e.as<Call>()->args[1];
    return e;
  });
}

PartStates derive_part_states(const Recurrence& recurrence) {
  check_length_of_axis(recurrence);
  Solver solver(recurrence);
  auto states = solver.run();
  if (!states) refuse(recurrence, solver.open());
  return {std::move(*states), lengths_in_terms(recurrence)};
}

std::string print_part_states(const Recurrence& recurrence, const PartStates& states) {
  std::string out = "state of a part, from its outputs\n";
  for (const Slot& slot : recurrence.slots) {
    out += "  " + slot.name;
    for (const std::string& axis : slot.extra) out += "[" + axis + "]";
    out += " = " + to_string(states.of_slot.at(slot.name)) + "\n";
  }
  for (const std::string& note : states.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace astatide
