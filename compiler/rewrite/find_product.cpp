#include "compiler/rewrite/find_product.h"

namespace astatide {

std::optional<std::vector<ScaledProduct>> find_products(const std::string& contracted, const Expr& body,
                                                        const std::string& axis) {
  bool nested = false;
  visit(body, [&](const Expr& e) { nested = nested || e.as<Reduce>(); });
  if (nested) return std::nullopt;
  Polynomial terms;
  try {
    terms = normal_form(body, {});
  } catch (const ExpansionTooLarge&) {
    return std::nullopt;
  }
  std::vector<ScaledProduct> products;
  for (const Monomial& term : terms) {
    std::optional<Expr> lhs, rhs;
    Monomial outside = constant(term.coefficient);
    outside.exponent = term.exponent;
    if (names_in(outside.exponent).contains(contracted)) return std::nullopt;
    for (const Power& power : term.powers) {
      const std::set<std::string> names = free_variables(power.base);
      if (!names.contains(contracted)) {
        outside = multiply(outside, power_of(power.base, power.exponent));
        continue;
      }
      std::optional<Expr>& side = names.contains(axis) ? rhs : lhs;
      if (!power.base.as<Read>() || power.exponent != 1 || side) return std::nullopt;
      side = power.base;
    }
    if (!lhs || !rhs) return std::nullopt;
    products.push_back({Product{contracted, *lhs, *rhs}, to_expr(outside)});
  }
  return products;
}

}  // namespace astatide
