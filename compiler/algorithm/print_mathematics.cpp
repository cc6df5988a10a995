#include <algorithm>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/factors.h"
#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

/// How strongly the parts of an expression hold together; a reduction takes in all that follows.
int strength(const Expr& e) {
  if (e.as<Reduce>()) return 0;
  const auto* c = e.as<Call>();
  if (!c || !info(c->op).is_operator || c->op == Op::floor_div) return 4;
  switch (c->op) {
    case Op::add:
    case Op::sub:
      return 2;
    case Op::mul:
    case Op::div:
      return 3;
    default:
      return 1;
  }
}

bool is_product(const Expr& e) { return e.is_call(Op::mul); }

/// Text of an expression with reductions written as mathematics does: sum_d Q[i,d] K[j,d]. A reduction reaches as far
/// to the right as it can, so it stands last in a product and in parentheses elsewhere.
class MathematicsPrinter {
 public:
  explicit MathematicsPrinter(const NameKinds& names) : names_(names) {}

  std::string print(const Expr& e) const {
    if (const auto* r = e.as<Reduce>()) return print_reduce(*r);
    if (is_product(e)) return print_product(e, " * ");
    const auto* c = e.as<Call>();
    if (!c || !has_reduction(e)) return print_expr(e, names_);
    if (!info(c->op).is_operator) return print_function(*c);
    if (c->args.size() == 1) return std::string(info(c->op).name) + operand(c->args[0]);
    const int own = strength(e);
    return operand(c->args[0], own == 1 ? 2 : own) + " " + std::string(info(c->op).name) + " " +
           operand(c->args[1], own + 1);
  }

 private:
  static bool has_reduction(const Expr& e) {
    bool found = false;
    visit(e, [&](const Expr& node) { found = found || node.as<Reduce>(); });
    return found;
  }

  std::string operand(const Expr& e, int least = 4) const {
    const std::string text = print(e);
    return strength(e) < least ? "(" + text + ")" : text;
  }

  std::string print_function(const Call& c) const {
    std::string args;
    for (const Expr& arg : c.args) args += (args.empty() ? "" : ", ") + print(arg);
    return std::string(info(c.op).name) + "(" + args + ")";
  }

  std::string print_reduce(const Reduce& r) const {
    const Expr& body = r.body.front();
    const std::string name = std::string(name_of(r.op)) + "_" + r.axis;
    if (r.op != Reduction::sum) return name + " " + operand(body);
    return name + " " + (is_product(body) ? print_product(body, " ") : operand(body));
  }

  /// Factors in their order, but for the one that is a reduction, which goes last.
  std::string print_product(const Expr& e, const std::string& times) const {
    std::vector<Expr> factors = factors_of(e);
    std::stable_partition(factors.begin(), factors.end(), [](const Expr& f) { return !f.as<Reduce>(); });
    const auto reductions =
        std::count_if(factors.begin(), factors.end(), [](const Expr& f) { return f.as<Reduce>() != nullptr; });
    std::string out;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const bool last = i + 1 == factors.size();
      const bool bare = factors[i].as<Reduce>() && last && reductions == 1;
      out += (i == 0 ? "" : times) + (bare ? print(factors[i]) : operand(factors[i], i == 0 ? 3 : 4));
    }
    return out;
  }

  const NameKinds& names_;
};

}  // namespace

std::string print_mathematics(const Algorithm& algorithm) {
  const NameKinds names = name_kinds(algorithm);
  const MathematicsPrinter printer(names);
  std::string out;
  const auto add = [&](const Func& func, const std::string& becomes) {
    std::string indices;
    if (func.stored.empty())
      for (const std::string& index : func.indices) indices += (indices.empty() ? "" : ",") + index;
    for (const Expr& place : func.stored) indices += (indices.empty() ? "" : ", ") + print_expr(place, names, true);
    out += func.name + "[" + indices + "]" + becomes + printer.print(func.value);
    if (func.where_predicate) out += "  where " + print_expr(*func.where_predicate, names);
    out += "\n";
  };
  for (const Func& update : algorithm.updates) add(update, " <- ");
  for (const Func& func : algorithm.define) add(func, " = ");
  return out;
}

}  // namespace astatide
