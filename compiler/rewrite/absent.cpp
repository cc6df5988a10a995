#include "compiler/rewrite/absent.h"

#include <algorithm>
#include <array>
#include <limits>

#include "compiler/rewrite/value_of.h"

namespace astatide {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<double, 3> kCandidates{-kInfinity, 0, kInfinity};
constexpr unsigned kProbes = 6;

struct Term {
  Expr value;  // weights written out
  Reduction op = Reduction::sum;
  std::set<std::string> names;
};

class AbsentChooser {
 public:
  AbsentChooser(std::vector<Element>& elements, std::vector<Term> terms, std::map<std::string, double> units)
      : elements_(elements), terms_(std::move(terms)), units_(std::move(units)) {
    for (Term& term : terms_) term.names = free_variables(term.value);
  }

  /// One flag a term.
  std::vector<bool> run() {
    for (Element& element : elements_) element.absent = best_candidate(element);
    std::vector<bool> masked;
    for (const Term& term : terms_) masked.push_back(needs_mask(term));
    return masked;
  }

 private:
  double best_candidate(const Element& element) const {
    int best = -1;
    double chosen = 0;
    for (const double candidate : kCandidates) {
      int suited = 0;
      for (const Term& term : terms_) {
        if (term.names.contains(element.name)) suited += is_unit(term, {{element.name, candidate}}) ? 1 : 0;
      }
      // Where all suit alike, as when no term reads the element, 0 is the plainest.
      if (suited > best || (suited == best && candidate == 0)) {
        best = suited;
        chosen = candidate;
      }
    }
    return chosen;
  }

  bool needs_mask(const Term& term) const {
    std::map<std::string, double> all;
    for (const Element& element : elements_) {
      if (!term.names.contains(element.name)) continue;
      all[element.name] = element.absent;
      // Its predicate may fail while others hold.
      if (!element.where_predicates.empty() && !is_unit(term, {{element.name, element.absent}})) return true;
    }
    return all.empty() || !is_unit(term, all);
  }

  bool is_unit(const Term& term, const std::map<std::string, double>& absent) const {
    for (unsigned probe = 0; probe < kProbes; ++probe) {
      RandomBindings bindings(probe + 1, 0.3, 1.7);
      if (probe == kProbes - 1) {
        for (const auto& [name, unit] : units_) bindings.set(name, unit);
      }
      for (const auto& [name, value] : absent) bindings.set(name, value);
      if (bindings(with_reads_of_sign(term.value, probe)) != unit_of(term.op)) return false;
    }
    return true;
  }

  /// Names are positive where that is known, and mostly are; what a tensor holds has any sign, and is 0 past its end.
  static Expr with_reads_of_sign(const Expr& e, unsigned probe) {
    if (probe >= 2) return e;
    return transform(e, [&](const Expr& node) {
      if (!node.as<Read>()) return node;
      return probe == 0 ? Expr(0) : Expr(0) - node;
    });
  }

  std::vector<Element>& elements_;
  std::vector<Term> terms_;
  std::map<std::string, double> units_;
};

}  // namespace

void choose_absent_values(Cascade& cascade) {
  std::vector<Term> terms;
  std::map<std::string, double> units;
  for (const Stage& stage : cascade.stages) {
    terms.push_back({stage.term, stage.op, {}});
    units[stage.name] = unit_of(stage.op);
  }
  const std::vector<bool> masked = AbsentChooser(cascade.elements, std::move(terms), std::move(units)).run();
  for (std::size_t i = 0; i < masked.size(); ++i) cascade.stages[i].masked = masked[i];
}

void choose_absent_values(Recurrence& recurrence) {
  std::vector<Term> terms;
  std::map<std::string, double> units;
  for (const Slot& slot : recurrence.slots) {
    Expr term = slot.term;
    for (std::size_t i = recurrence.weights.size(); i-- > 0;) {
      term = substitute(term, {{recurrence.weights[i].name, recurrence.weights[i].value}});
    }
    terms.push_back({term, slot.op, {}});
    units[slot.name] = unit_of(slot.op);
  }
  const std::vector<bool> masked = AbsentChooser(recurrence.elements, std::move(terms), std::move(units)).run();
  for (std::size_t i = 0; i < masked.size(); ++i) recurrence.slots[i].masked = masked[i];
}

GuardFacts guard_facts(const Cascade& cascade) {
  GuardFacts facts;
  for (const Stage& stage : cascade.stages) {
    (stage.op == Reduction::sum ? facts.totals : facts.extrema).insert(stage.name);
  }
  for (const Element& element : cascade.elements) facts.elements.insert(element.name);
  return facts;
}

}  // namespace astatide
