#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

#include "compiler/rewrite/rules.h"
#include "compiler/rewrite/value_of.h"

using namespace astatide;

namespace {

constexpr unsigned kSeed = 5;

/// Values at which every function of the table has one: zero or more for square roots and logarithms.
double value_at(const Expr& e, double x, double y, double c) {
  Bindings bindings;
  bindings.variables = {{"x", x}, {"y", y}, {"c", c}};
  return value_of(e, bindings);
}

}  // namespace

TEST_CASE("both sides of each rule are equal at random values") {
  std::mt19937 rng(kSeed);
  std::uniform_real_distribution<double> positive(0.01, 3);
  for (const Rule& rule : core_rules()) {
    for (int round = 0; round < 200; ++round) {
      const double x = positive(rng), y = positive(rng), c = round % 2;
      INFO("rule " << rule.name << ", seed " << kSeed << ", round " << round);
      const double left = value_at(rule.lhs, x, y, c), right = value_at(rule.rhs, x, y, c);
      REQUIRE(std::abs(left - right) <= 1e-12 * (1 + std::abs(left)));
    }
  }
}

TEST_CASE("each rule fires on its own left side, and simplify leaves nothing for it to do") {
  // Names beside x, y and c, so that a rule is not tried on its own pattern.
  const std::map<std::string, Expr> terms{
      {"x", variable("s") + 1}, {"y", variable("r") + 2}, {"c", less(variable("s"), 3)}};
  for (const Rule& rule : core_rules()) {
    INFO("rule " << rule.name);
    const Expr e = substitute(rule.lhs, terms);
    const std::optional<Expr> once = apply_rule(rule, e);
    REQUIRE(once);
    CHECK(*once == substitute(rule.rhs, terms));
    const Expr all = simplify(e, core_rules());
    visit(all, [&](const Expr& node) { CHECK_FALSE(apply_rule(rule, node)); });
  }
}

TEST_CASE("rules have names of their own") {
  std::set<std::string_view> names;
  for (const Rule& rule : core_rules()) CHECK(names.insert(rule.name).second);
}

TEST_CASE("an indicator is left alone") {
  const Expr indicator = select(equal(variable("s"), variable("m")), Expr(1), Expr(0));
  CHECK(simplify(indicator, core_rules()) == indicator);
}
