#include <algorithm>
#include <cmath>

#include "compiler/rewrite/recurrence.h"

namespace astatide {

namespace {

std::string comma_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string number_text(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return to_string(value == std::floor(value) ? Expr(static_cast<std::int64_t>(value)) : Expr(value));
}

std::string conjunction(const std::vector<Expr>& predicates) {
  std::string text;
  for (const Expr& predicate : predicates) text += (text.empty() ? "" : " and ") + to_string(predicate);
  return text;
}

class RecurrencePrinter {
 public:
  explicit RecurrencePrinter(const Recurrence& recurrence) : r_(recurrence) {}

  std::string run() {
    text_ = "recurrence over " + r_.axis + " for each " + comma_list(r_.rows) + "\n";
    for (const Element& element : r_.elements) print_element(element);
    text_ += "init\n";
    for (const Slot& slot : r_.slots) line(shaped(slot) + " = " + number_text(unit_of(slot.op)));
    text_ += "step over a tile of " + r_.axis + "\n";
    print_step();
    text_ += "combine with another state, marked '\n";
    print_combine();
    text_ += "finalize\n";
    for (const RowValue& value : r_.values) print_value(value);
    for (const Slot& slot : r_.slots) print_facts(slot);
    for (const std::string& note : r_.notes) text_ += "note: " + note + "\n";
    return std::move(text_);
  }

 private:
  void line(const std::string& content) { text_ += "  " + content + "\n"; }

  static std::string shaped(const Slot& slot) {
    return slot.extra.empty() ? slot.name : slot.name + "[" + comma_list(slot.extra) + "]";
  }

  void print_element(const Element& element) {
    std::string content = element.name + "[" + comma_list(element.indices) + "] = ";
    if (element.product) {
      const std::string product = "sum(" + element.product->axis + ", " + to_string(element.product->lhs) + " * " +
                                  to_string(element.product->rhs) + ")";
      const bool bare = element.value == variable(element.name);
      content += bare ? product
                      : to_string(substitute(element.value, {{element.name, variable("product")}})) +
                            " with product = " + product;
    } else {
      content += to_string(element.value);
    }
    if (!element.where_predicates.empty()) content += " where " + conjunction(element.where_predicates);
    content += ", absent " + number_text(element.absent);
    text_ += "element " + content + "\n";
  }

  bool reads_new(const Expr& e, const std::set<std::string>& moved) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(moved.begin(), moved.end(), [&](const std::string& name) { return names.contains(name); });
  }

  /// Within the loop a slot's name means its new value once it is updated; weights stand where all they read is.
  void print_step() {
    std::set<std::string> pending, printed;
    for (const Slot& slot : r_.slots) pending.insert(slot.name);
    for (const Slot& slot : r_.slots) {
      for (const Weight& weight : r_.weights) {
        if (!free_variables(loop_term(slot)).contains(weight.name)) continue;
        print_weight(weight, printed);
      }
      line(new_value_name(slot.name) + " = " + updated(slot));
    }
    std::string keep;
    for (const Slot& slot : r_.slots)
      keep += (keep.empty() ? "" : ", ") + slot.name + " = " + new_value_name(slot.name);
    line(keep);
  }

  static Expr loop_term(const Slot& slot) { return slot.factor ? slot.term * *slot.factor : slot.term; }

  void print_weight(const Weight& weight, std::set<std::string>& printed) {
    if (!printed.insert(weight.name).second) return;
    for (const Weight& other : r_.weights) {
      if (free_variables(weight.value).contains(other.name)) print_weight(other, printed);
    }
    line(weight.name + " = " + to_string(with_new_values(weight.value)));
  }

  Expr with_new_values(const Expr& e) const {
    std::map<std::string, Expr> values;
    for (const Slot& slot : r_.slots) values.insert_or_assign(slot.name, variable(new_value_name(slot.name)));
    return substitute(e, values);
  }

  std::string updated(const Slot& slot) const {
    const std::string over = std::string(name_of(slot.op)) + "(" + r_.axis + ", " +
                             to_string(with_new_values(loop_term(slot))) + (slot.masked ? " where present" : "") + ")";
    if (slot.op == Reduction::sum) return to_string(slot.move) + " + " + over;
    return std::string(name_of(slot.op)) + "(" + to_string(slot.move) + ", " + over + ")";
  }

  void print_combine() {
    for (const Slot& slot : r_.slots) {
      std::map<std::string, Expr> other;
      for (const Slot& any : r_.slots) other.insert_or_assign(any.name, variable(any.name + "'"));
      const std::string mine = to_string(slot.move), theirs = to_string(substitute(slot.move, other));
      if (slot.op == Reduction::sum) {
        line(new_value_name(slot.name) + " = " + mine + " + " + theirs);
      } else {
        line(new_value_name(slot.name) + " = " + std::string(name_of(slot.op)) + "(" + mine + ", " + theirs + ")");
      }
    }
  }

  void print_value(const RowValue& value) {
    std::string content = value.name + "[" + comma_list(value.indices) + "] = " + to_string(value.value);
    if (!value.where_predicates.empty()) content += " where " + conjunction(value.where_predicates);
    line(content);
  }

  void print_facts(const Slot& slot) {
    std::string facts;
    const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
    if (!slot.references.empty()) add("moves with " + comma_list(slot.references));
    if (slot.read_in_loop) add("read in the loop");
    if (slot.gauge) add("gauge");
    if (!slot.witness.empty()) add("witness " + slot.witness);
    if (slot.growth) add("growth " + to_string(*slot.growth));
    if (!facts.empty()) text_ += "slot " + slot.name + ": " + facts + "\n";
  }

  const Recurrence& r_;
  std::string text_;
};

}  // namespace

std::string print_recurrence(const Recurrence& recurrence) { return RecurrencePrinter(recurrence).run(); }

}  // namespace astatide
