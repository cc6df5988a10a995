#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "compiler/algorithm/algorithm.h"
#include "compiler/support/diagnostic.h"

namespace astatide {
namespace {

const Expr i = variable("i");
const Expr j = variable("j");
const Expr x = read("x", {variable("i"), variable("j")});

Expr parse(const std::string& text) { return parse_expr(text, {}); }

/// What is printed is also what is read.
void check_text(const Expr& e, const std::string& text) {
  CHECK(to_string(e) == text);
  CHECK(parse(text) == e);
}

}  // namespace

TEST_CASE("Equality is structural, tells kinds of numbers apart and ignores places") {
  CHECK(parse("x[i,j] * 2 + i") == x * 2 + i);
  CHECK(parse("x[i,j]  *  2 + i") == parse("x[i,j] * 2 + i"));
  CHECK_FALSE(Expr(1) == Expr(1.0));
  CHECK_FALSE(Expr(0.0) == Expr(-0.0));
  CHECK(Expr(std::nan("")) == Expr(std::nan("")));
  CHECK_FALSE(x + i == i + x);
}

TEST_CASE("The order of expressions is total") {
  const std::vector<Expr> all{Expr(1),
                              Expr(2),
                              Expr(1.0),
                              i,
                              j,
                              i + j,
                              j + i,
                              i - j,
                              x,
                              exp(x),
                              reduce(Reduction::sum, "j", x),
                              reduce(Reduction::max, "j", x),
                              reduce(Reduction::sum, "i", x),
                              read("y", {i})};
  for (const Expr& a : all)
    for (const Expr& b : all) {
      CHECK((a == b) == (a.id() == b.id()));
      CHECK((a < b) + (b < a) + (a == b) == 1);
    }
}

TEST_CASE("Formulas fold constants and units, and nothing else") {
  CHECK(i + 0 == i);
  CHECK(0 + i == i);
  CHECK(i - 0 == i);
  CHECK(i * 1 == i);
  CHECK(1 * i == i);
  CHECK(Expr(2) + Expr(3) == Expr(5));
  CHECK(Expr(2) * Expr(1.5) == Expr(3.0));
  CHECK(Expr(1) / Expr(4) == Expr(0.25));
  CHECK(floor_div(Expr(-7), Expr(2)) == Expr(-4));
  CHECK(mod(Expr(-7), Expr(2)) == Expr(1));
  CHECK(ceil_div(Expr(7), Expr(2)) == Expr(4));
  CHECK(-Expr(3) == Expr(-3));
  // 0 * infinity is no 0, and x - x is none where x is infinite.
  CHECK((i * 0).is_call(Op::mul));
  CHECK((i - i).is_call(Op::sub));
  CHECK(exp(Expr(0)).is_call(Op::exp));
}

TEST_CASE("Folding stops where the result leaves 64 bits or a divisor is zero") {
  const Expr most(std::numeric_limits<std::int64_t>::max());
  CHECK((most + 1).is_call(Op::add));
  CHECK((most * 2).is_call(Op::mul));
  CHECK(floor_div(Expr(1), Expr(0)).is_call(Op::floor_div));
  CHECK((Expr(1.0) / Expr(0)).is_call(Op::div));
}

TEST_CASE("Printing uses as few parentheses as reading needs") {
  check_text(call(Op::sub, {i, call(Op::sub, {j, i})}), "i - (j - i)");
  check_text(call(Op::sub, {call(Op::sub, {i, j}), i}), "i - j - i");
  check_text(call(Op::mul, {call(Op::add, {i, j}), j}), "(i + j) * j");
  check_text(call(Op::div, {i, call(Op::mul, {j, i})}), "i / (j * i)");
  check_text(call(Op::neg, {call(Op::mul, {i, j})}), "-(i * j)");
  check_text(call(Op::mul, {call(Op::neg, {i}), j}), "-i * j");
  check_text(call(Op::logical_and, {call(Op::logical_or, {less(i, j), less(j, i)}), less(i, 3)}),
             "(i < j or j < i) and i < 3");
  check_text(call(Op::logical_not, {call(Op::logical_and, {less(i, j), less(j, i)})}), "not (i < j and j < i)");
  check_text(read("x", {call(Op::floor_div, {call(Op::mul, {i, j}), Expr(4)}), call(Op::add, {j, Expr(1)})}),
             "x[i*j/4, j+1]");
}

TEST_CASE("Numbers keep their kind and value through text") {
  check_text(Expr(2.0), "2.0");
  check_text(Expr(0.1), "0.1");
  check_text(Expr(0.30000000000000004), "0.30000000000000004");
  check_text(Expr(1e300), "1e+300");
  check_text(Expr(-1.5), "-1.5");
  check_text(Expr(-2), "-2");
  check_text(Expr(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  check_text(Expr(-std::numeric_limits<double>::infinity()), "-inf");
  check_text(Expr(-0.0), "-0.0");
  check_text(call(Op::neg, {Expr(2)}), "-(2)");
  check_text(call(Op::neg, {call(Op::neg, {i})}), "--i");
  check_text(call(Op::sub, {i, Expr(-1)}), "i - -1");
}

TEST_CASE("A slash divides integers in brackets and between integers compared, and reals elsewhere") {
  CHECK(parse("i / 4").is_call(Op::div));
  CHECK(parse_expr("i / 4", {}, true).is_call(Op::floor_div));
  CHECK(parse("x[i/4, j]").as<Read>()->indices[0].is_call(Op::floor_div));
  CHECK(parse("i / 4 == j").as<Call>()->args[0].is_call(Op::floor_div));
  CHECK(parse("i / 4.0 < j").as<Call>()->args[0].is_call(Op::div));
  CHECK(parse("x[i,j] / 2 < j").as<Call>()->args[0].is_call(Op::div));
  check_text(floor_div(i, 4), "floor_div(i, 4)");
  check_text(less(call(Op::div, {i, Expr(4)}), j), "div(i, 4) < j");
  check_text(less(call(Op::floor_div, {i, Expr(4)}), x), "floor_div(i, 4) < x[i,j]");
  check_text(read("x", {call(Op::div, {i, Expr(4)})}), "x[div(i, 4)]");
}

TEST_CASE("max over a name that the rest depends on is a reduction, else the larger of two values") {
  check_text(reduce(Reduction::max, "j", x), "max(j, x[i,j])");
  check_text(call(Op::max, {j, i}), "max(j, i)");
  check_text(call(Op::max, {j, x}), "max((j), x[i,j])");
  check_text(call(Op::min, {x, j}), "min(x[i,j], j)");
}

TEST_CASE("Substituting reaches free variables only") {
  const Expr sum = reduce(Reduction::sum, "j", x);
  CHECK(substitute(sum, {{"i", Expr(3)}}) == reduce(Reduction::sum, "j", read("x", {Expr(3), j})));
  CHECK(substitute(sum, {{"j", Expr(3)}}) == sum);
  CHECK(substitute(sum + j, {{"j", Expr(3)}}) == sum + 3);
}

TEST_CASE("A value put into a reduction is not captured by its axis") {
  const Expr sum = reduce(Reduction::sum, "j", x);
  CHECK(substitute(sum, {{"i", j}}) == reduce(Reduction::sum, "j_1", read("x", {j, variable("j_1")})));
}

TEST_CASE("The axis of a softmax is free in it") {
  const Expr weight = reduce(Reduction::softmax, "j", x);
  CHECK(free_variables(weight) == std::set<std::string>{"i", "j"});
  CHECK(free_variables(reduce(Reduction::logsumexp, "j", x)) == std::set<std::string>{"i"});
  CHECK(substitute(weight, {{"j", variable("k")}}) == reduce(Reduction::softmax, "k", read("x", {i, variable("k")})));
  // At one place it is the weight there, of the row as it was.
  const Expr at = substitute(weight, {{"j", Expr(3)}});
  CHECK(at.is_call(Op::div));
  CHECK(free_variables(at) == std::set<std::string>{"i"});
}

TEST_CASE("softmax and logsumexp stand for maxima and sums") {
  const Expr peak = reduce(Reduction::max, "j", x);
  const Expr weight = exp(x - peak);
  CHECK(expand_definitions(reduce(Reduction::softmax, "j", x)) == weight / reduce(Reduction::sum, "j", weight));
  CHECK(expand_definitions(reduce(Reduction::logsumexp, "j", x)) == peak + log(reduce(Reduction::sum, "j", weight)));
}

TEST_CASE("The size of a tree saturates") {
  Expr e = i;
  for (int k = 0; k < 40; ++k) e = call(Op::add, {e, e});
  CHECK(e.tree_size() == std::numeric_limits<std::uint32_t>::max());
  // Shared nodes are rewritten once, or this would not end.
  CHECK(transform(e, [](const Expr& node) { return node == i ? j : node; }).tree_size() == e.tree_size());
  CHECK(substitute(e, {{"i", j}}).tree_size() == e.tree_size());
}

TEST_CASE("Integers are evaluated exactly, rounding down") {
  const std::map<std::string, std::int64_t> values{{"i", -7}, {"j", 2}};
  CHECK(evaluate_integer(floor_div(i, j), values) == -4);
  CHECK(evaluate_integer(mod(i, j), values) == 1);
  CHECK(evaluate_integer(call(Op::select, {less(i, j), Expr(10), Expr(20)}), values) == 10);
  CHECK(evaluate_integer(max(i, j), values) == 2);
}

TEST_CASE("Integers that leave 64 bits, or are divided by zero, are the user's error; unbound names are ours") {
  const std::map<std::string, std::int64_t> values{{"i", std::numeric_limits<std::int64_t>::max()}, {"j", 0}};
  CHECK_THROWS_AS(evaluate_integer(i * 2, values), UserError);
  CHECK_THROWS_AS(evaluate_integer(i + 1, values), UserError);
  CHECK_THROWS_AS(evaluate_integer(floor_div(i, j), values), UserError);
  CHECK_THROWS_AS(evaluate_integer(variable("k"), values), InternalError);
  CHECK_THROWS_AS(evaluate_integer(Expr(1.5), values), InternalError);
}

TEST_CASE("The meaning of the operations that aren't those of the machine") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto value = [](Op op, double a, double b = 0) {
    const double args[2] = {a, b};
    return apply(op, args);
  };
  CHECK(value(Op::safe, -infinity) == 0);
  CHECK(value(Op::safe, infinity) == infinity);
  CHECK(value(Op::absorb, 0, infinity) == 0);
  CHECK(value(Op::absorb, 2, 3) == 6);
  CHECK(std::isnan(value(Op::max, std::nan(""), 1)));
  CHECK(std::isnan(value(Op::max, 1, std::nan(""))));
  CHECK(value(Op::sigmoid, -1000) == 0);
  CHECK(value(Op::sigmoid, 1000) == 1);
  CHECK(value(Op::mod, -1, 4) == 3);
}

}  // namespace astatide
