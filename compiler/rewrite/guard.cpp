#include "compiler/rewrite/guard.h"

#include <algorithm>

#include "compiler/support/match.h"

namespace astatide {

namespace {

class Guard {
 public:
  explicit Guard(const GuardFacts& facts) : facts_(facts) {}

  Expr operator()(const Expr& e, bool in_exponent = false) const {
    if (const auto* v = e.as<Variable>()) {
      return in_exponent && facts_.extrema.contains(v->name) ? safe(e) : e;
    }
    const auto* c = e.as<Call>();
    if (!c || c->op == Op::safe) return e;
    if (in_exponent && (c->op == Op::max || c->op == Op::min)) return reads_extremum(e) ? safe(e) : e;
    const bool exponent = in_exponent || c->op == Op::exp || c->op == Op::exp2;
    std::vector<Expr> args = c->args;
    for (Expr& arg : args) arg = (*this)(arg, exponent);
    if (c->op == Op::div && reads_reduction(args[1])) return absorb(args[0], Expr(1) / args[1]);
    if (c->op == Op::mul) {
      if (can_be_zero(args[0]) && can_be_infinite(args[1])) return absorb(args[0], args[1]);
      if (can_be_zero(args[1]) && can_be_infinite(args[0])) return absorb(args[1], args[0]);
    }
    return with_children(e, std::move(args));
  }

 private:
  bool reads_extremum(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return facts_.extrema.contains(name); });
  }

  bool reads_reduction(const Expr& e) const {
    const std::set<std::string> names = free_variables(e);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return facts_.extrema.contains(name) || facts_.totals.contains(name);
    });
  }

  bool can_be_zero(const Expr& e) const {
    if (const auto* v = e.as<Variable>()) return facts_.totals.contains(v->name);
    const auto* c = e.as<Call>();
    if (!c) return false;
    switch (c->op) {
      case Op::exp:
      case Op::exp2:
      case Op::select:
      case Op::absorb:
        return true;
      case Op::neg:
      case Op::div:
      case Op::sqrt:
        return can_be_zero(c->args[0]);
      case Op::mul:
        return can_be_zero(c->args[0]) || can_be_zero(c->args[1]);
      default:
        return false;
    }
  }

  bool can_be_infinite(const Expr& e) const {
    if (const auto* v = e.as<Variable>()) return facts_.extrema.contains(v->name) || facts_.elements.contains(v->name);
    const auto* c = e.as<Call>();
    if (!c) return false;
    switch (c->op) {
      case Op::log:
      case Op::log2:
        return true;
      case Op::exp:
      case Op::exp2:
      case Op::tanh:
      case Op::sigmoid:
      case Op::select:
      case Op::safe:
        return false;
      case Op::div:
        return can_be_infinite(c->args[0]) || reads_reduction(c->args[1]);
      default:
        return std::any_of(c->args.begin(), c->args.end(), [&](const Expr& arg) { return can_be_infinite(arg); });
    }
  }

  const GuardFacts& facts_;
};

}  // namespace

Expr guarded(const Expr& e, const GuardFacts& facts) { return Guard(facts)(e); }

}  // namespace astatide
