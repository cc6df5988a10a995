#include "compiler/rewrite/rules.h"

#include <map>
#include <string>
#include <vector>

#include "compiler/support/match.h"

namespace astatide {

namespace {

const std::vector<Rule>& table() {
  static const std::vector<Rule> rules = [] {
    const Expr x = variable("x"), y = variable("y"), c = variable("c");
    const auto pow = [](const Expr& base, double n) { return call(Op::pow, {base, Expr(n)}); };
    const auto minus = [](const Expr& e) { return call(Op::mul, {Expr(-1), e}); };
    const Expr log2 = call(Op::log, {Expr(2)});
    return std::vector<Rule>{
        {"negation", -x, minus(x)},
        {"difference", call(Op::sub, {x, y}), call(Op::add, {x, minus(y)})},
        {"quotient", call(Op::div, {x, y}), call(Op::mul, {x, pow(y, -1)})},
        {"square_root", call(Op::sqrt, {x}), pow(x, 0.5)},
        // One base for all exponentials; the factor log(2) brings exp2 and log2 back when they are written.
        {"base_two_exponential", call(Op::exp2, {x}), exp(call(Op::mul, {x, log2}))},
        {"base_two_logarithm", call(Op::log2, {x}), call(Op::mul, {log(x), pow(log2, -1)})},
        {"logarithm_of_exponential", log(exp(x)), x},
        // Guards against infinities come back when a recurrence is written; until then they are in the way.
        {"safe_reference", safe(x), x},
        {"absorbing_product", absorb(x, y), call(Op::mul, {x, y})},
        // Makes an indicator a factor like any other.
        {"indicator", select(c, x, Expr(0)), select(c, Expr(1), Expr(0)) * x},
        {"maximum_of_one", call(Op::max, {x, x}), x},
        {"minimum_of_one", call(Op::min, {x, x}), x},
        {"same_on_both_sides", select(c, x, x), x},
        {"absolute_of_negative", call(Op::abs, {minus(x)}), call(Op::abs, {x})},
        {"absolute_twice", call(Op::abs, {call(Op::abs, {x})}), call(Op::abs, {x})},
    };
  }();
  return rules;
}

using Captures = std::map<std::string, Expr>;

bool captures(const Expr& pattern, const Expr& e, Captures& found) {
  if (const auto* v = pattern.as<Variable>()) {
    const auto [entry, is_new] = found.emplace(v->name, e);
    return is_new || entry->second == e;
  }
  const auto* c = pattern.as<Call>();
  if (!c) {
    const auto* number = pattern.as<Number>();
    const auto* integer = pattern.as<Integer>();
    return e.is_constant(number ? number->value : static_cast<double>(integer->value));
  }
  if (!e.is_call(c->op)) return false;
  const std::vector<Expr> operands = children(e);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!captures(c->args[i], operands[i], found)) return false;
  }
  return true;
}

/// substitute() keeps x * 1 as it is; here it is x, so that a rule that reproduces its left side changes nothing.
Expr with_captures(const Expr& e, const Captures& found) {
  if (const auto* v = e.as<Variable>()) return found.at(v->name);
  if (!e.as<Call>()) return e;
  std::vector<Expr> operands;
  for (const Expr& operand : children(e)) operands.push_back(with_captures(operand, found));
  if (e.is_call(Op::mul)) return operands[0] * operands[1];
  return with_children(e, std::move(operands));
}

}  // namespace

std::span<const Rule> core_rules() { return table(); }

std::optional<Expr> apply_rule(const Rule& rule, const Expr& e) {
  Captures found;
  if (!captures(rule.lhs, e, found)) return std::nullopt;
  Expr result = with_captures(rule.rhs, found);
  if (result == e) return std::nullopt;
  return result;
}

Expr simplify(const Expr& e, std::span<const Rule> rules) {
  return transform(e, [&](const Expr& node) {
    Expr result = node;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Rule& rule : rules) {
        if (auto next = apply_rule(rule, result)) {
          // Operands of the replacement that the rule made have not been looked at yet.
          result = simplify(*next, rules);
          changed = true;
        }
      }
    }
    return result;
  });
}

}  // namespace astatide
