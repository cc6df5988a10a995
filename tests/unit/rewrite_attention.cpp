#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/rewrite/recurrence.h"
#include "tests/support/paths.h"

using namespace astatide;
using astatide::testing::source_path;
using astatide::testing::text_of;

namespace {

Expr expr(const std::string& text) { return parse_expr(text, {}); }

Cascade cascade_of(const std::string& text) { return find_cascade(parse_algorithm(text, "attention.yaml")); }

std::string attention(const std::string& define, const std::string& outputs = "O") {
  return "algorithm: attention\nextents: [B, H, Sq, Sk, D, Dv]\nscalars: {scale: 1/sqrt(D)}\n"
         "inputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, Dv]}\ndefine:\n" +
         define + "outputs: [" + outputs + "]\n";
}

const Slot& slot(const Recurrence& recurrence, const std::string& name) {
  for (const Slot& candidate : recurrence.slots) {
    if (candidate.name == name) return candidate;
  }
  throw std::runtime_error("no slot " + name + " in\n" + print_recurrence(recurrence));
}

const std::vector<std::string> kRowAxes{"b", "h", "i"};
const std::vector<std::string> kScoreAxes{"b", "h", "i", "j"};

}  // namespace

TEST_CASE("the cascade of causal attention holds a raw and a masked score, m, l and O") {
  const Cascade cascade =
      cascade_of(attention("  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale\n"
                           "  - A[b,h,i,j] = S[b,h,i,j] where j <= i + Sk - Sq\n"
                           "  - P[b,h,i,j] = softmax(j, A[b,h,i,j])\n"
                           "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n"
                           "  - L[b,h,i] = logsumexp(j, A[b,h,i,j])\n",
                           "O, L"));
  CHECK(cascade.axis == "j");
  CHECK(cascade.rows == kRowAxes);

  REQUIRE(cascade.elements.size() == 2);
  const Element& s = cascade.elements[0];
  CHECK(s.name == "S");
  CHECK(s.indices == kScoreAxes);
  REQUIRE(s.product);
  CHECK(s.product->axis == "d");
  CHECK(s.product->lhs == expr("Q[b,h,i,d]"));
  CHECK(s.product->rhs == expr("K[b,h,j,d]"));
  CHECK(s.value == expr("S * scale"));
  CHECK(s.where_predicates.empty());
  const Element& a = cascade.elements[1];
  CHECK(a.name == "A");
  CHECK_FALSE(a.product);
  CHECK(a.value == variable("S"));
  REQUIRE(a.where_predicates.size() == 1);
  CHECK(a.where_predicates[0] == expr("j <= i + Sk - Sq"));
  CHECK(a.absent == -INFINITY);

  REQUIRE(cascade.stages.size() == 3);
  CHECK(cascade.stages[0].name == "m");
  CHECK(cascade.stages[0].op == Reduction::max);
  CHECK(cascade.stages[1].name == "l");
  CHECK(cascade.stages[2].name == "O");
  CHECK(cascade.stages[2].extra == std::vector<std::string>{"e"});
  for (const Stage& stage : cascade.stages) CHECK_FALSE(stage.masked);

  REQUIRE(cascade.values.size() == 3);
  CHECK(cascade.values[0].name == "P");
  CHECK_FALSE(cascade.values[0].output);
  CHECK(cascade.values[1].name == "O");
  CHECK(cascade.values[1].value == variable("O"));
  CHECK(cascade.values[2].name == "L");
  CHECK(cascade.values[2].value == expr("m + log(l)"));
}

TEST_CASE("the recurrence of causal attention is m, l and O_acc with the weight P") {
  const Recurrence recurrence =
      derive_online(find_cascade(parse_algorithm(text_of(source_path("examples/causal_gqa.yaml")), "causal_gqa.yaml")));
  REQUIRE(recurrence.weights.size() == 1);
  const Weight& p = recurrence.weights[0];
  CHECK(p.name == "P");
  CHECK(p.value == exp(variable("A") - safe(variable("m"))));
  REQUIRE(recurrence.slots.size() == 3);

  const Slot& m = recurrence.slots[0];
  CHECK(m.name == "m");
  CHECK(m.term == variable("A"));
  CHECK(m.move == variable("m"));
  CHECK(m.references.empty());
  CHECK(m.gauge);
  CHECK(m.read_in_loop);
  CHECK(m.witness == "l");
  REQUIRE(m.growth);
  CHECK(evaluate_real(*m.growth, {{"m", 1}, {"m_new", 1 + std::log(2.0)}}) == Approx(1));

  const Expr ratio = exp(variable("m") - safe(variable("m_new")));
  const Slot& l = recurrence.slots[1];
  CHECK(l.name == "l");
  CHECK(l.term == variable("P"));
  CHECK_FALSE(l.factor);
  CHECK(l.move == variable("l") * ratio);
  CHECK(l.references == std::vector<std::string>{"m"});
  CHECK_FALSE(l.read_in_loop);

  const Slot& acc = recurrence.slots[2];
  CHECK(acc.name == "O_acc");
  CHECK(acc.extra == std::vector<std::string>{"e"});
  CHECK(acc.term == variable("P"));
  REQUIRE(acc.factor);
  CHECK(*acc.factor == read("V", {variable("b"), parse_expr("h*Hkv/Hq", {}, true), variable("j"), variable("e")}));
  CHECK(acc.move == variable("O_acc") * ratio);
  for (const Slot& any : recurrence.slots) CHECK_FALSE(any.masked);

  REQUIRE(recurrence.values.size() == 2);
  CHECK(recurrence.values[0].value == absorb(variable("O_acc"), Expr(1) / variable("l")));
  CHECK(recurrence.values[1].value == variable("m") + log(variable("l")));
}

TEST_CASE("the same attention under other axis names, and in one line, has the same slots") {
  const std::string renamed = attention(
      "  - S[b,h,i,j] = sum(x, Q[b,h,i,x] * K[b,h,j,x]) * scale\n"
      "  - P[b,h,y,z] = softmax(z, S[b,h,y,z])\n"
      "  - O[b,h,q,d] = sum(k, P[b,h,q,k] * V[b,h,k,d])\n");
  const std::string one_line =
      attention("  - O[b,h,i,e] = sum(j, softmax(j, sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale) * V[b,h,j,e])\n");
  for (const std::string& text : {renamed, one_line}) {
    const Recurrence recurrence = derive_online(cascade_of(text));
    INFO(print_recurrence(recurrence));
    CHECK(recurrence.axis == "j");
    CHECK(recurrence.rows == kRowAxes);
    REQUIRE(recurrence.slots.size() == 3);
    CHECK(slot(recurrence, "O_acc").factor);
    CHECK(slot(recurrence, "m").gauge);
  }
}

TEST_CASE("factors along the key axis of scaled K and V join the score and the weight") {
  const Recurrence recurrence = derive_online(cascade_of(
      "algorithm: quantised\nextents: [B, H, Sq, Sk, D]\n"
      "inputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, D], ks: [B, H, Sk], vs: [B, H, Sk]}\ndefine:\n"
      "  - Kd[b,h,j,d] = K[b,h,j,d] * ks[b,h,j]\n"
      "  - Vd[b,h,j,e] = V[b,h,j,e] * vs[b,h,j]\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * Kd[b,h,j,d])\n"
      "  - O[b,h,i,e] = sum(j, softmax(j, S[b,h,i,j]) * Vd[b,h,j,e])\n"
      "outputs: [O]\n"));
  REQUIRE(recurrence.elements.size() == 1);
  CHECK(recurrence.elements[0].value == expr("S * ks[b,h,j]"));
  const Slot& acc = slot(recurrence, "O_acc");
  REQUIRE(acc.factor);
  CHECK(*acc.factor == expr("V[b,h,j,e]"));
  REQUIRE(recurrence.weights.size() == 2);
  CHECK(recurrence.weights[1].value == expr("weight * vs[b,h,j]"));
  CHECK(acc.term == variable(recurrence.weights[1].name));
}

TEST_CASE("a predicate behind softmax leaves the sum whole and masks the output's weight") {
  const Recurrence recurrence =
      derive_online(cascade_of(attention("  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale\n"
                                         "  - P[b,h,i,j] = softmax(j, S[b,h,i,j]) where j <= i\n"
                                         "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n")));
  INFO(print_recurrence(recurrence));
  CHECK(slot(recurrence, "l").term == variable("P"));
  REQUIRE(recurrence.elements.size() == 2);
  CHECK(recurrence.elements[0].where_predicates.empty());
  CHECK(recurrence.elements[1].where_predicates == std::vector<Expr>{expr("j <= i")});
  CHECK(recurrence.elements[1].absent == 0);
}

TEST_CASE("a maximum is inserted under a masked exponential that the file writes without one") {
  const Recurrence recurrence =
      derive_online(cascade_of(attention("  - W[b,h,i,j] = exp(sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale) where j <= i\n"
                                         "  - l[b,h,i] = sum(j, W[b,h,i,j])\n"
                                         "  - O[b,h,i,e] = sum(j, W[b,h,i,j] * V[b,h,j,e]) / l[b,h,i]\n")));
  INFO(print_recurrence(recurrence));
  CHECK(slot(recurrence, "m").gauge);
  CHECK(recurrence.weights[0].name == "W");
  CHECK(recurrence.values[0].value == absorb(variable(recurrence.slots[2].name), Expr(1) / variable("l_acc")));
  REQUIRE_FALSE(recurrence.notes.empty());
  CHECK_THAT(recurrence.notes[0], Catch::StartsWith("inserted reference m = max over j of W_exponent"));
}

TEST_CASE("P and S as outputs stay in the cascade for schedules without the streaming form") {
  const Cascade cascade =
      cascade_of(attention("  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale\n"
                           "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
                           "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n",
                           "O, P, S"));
  REQUIRE(cascade.values.size() == 3);
  CHECK(cascade.values[0].name == "S");
  CHECK(cascade.values[0].value == variable("S"));
  CHECK(cascade.values[1].name == "P");
  CHECK(cascade.values[1].output);
}

TEST_CASE("the recurrence that the README of the rewrite shows is the one that is derived") {
  const Recurrence recurrence =
      derive_online(find_cascade(parse_algorithm(text_of(source_path("examples/causal_gqa.yaml")), "causal_gqa.yaml")));
  const std::string readme = text_of(source_path("compiler/rewrite/README.md"));
  CHECK_THAT(readme, Catch::Contains("```\n" + print_recurrence(recurrence) + "```\n"));
}

TEST_CASE(
    "an exponential that is constant along the axis needs no reference, and what holds it is not multiplied out") {
  const auto derived = [](const std::string& slope) {
    return derive_online(
        cascade_of(attention("  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale\n"
                             "  - A[b,h,i,j] = S[b,h,i,j] - " +
                             slope +
                             " * (i + Sk - Sq - j) where j <= i + Sk - Sq\n"
                             "  - Z[b,h,i] = sum(j, A[b,h,i,j] * A[b,h,i,j])\n"
                             "  - P[b,h,i,j] = A[b,h,i,j] * A[b,h,i,j] / Z[b,h,i]\n"
                             "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n")));
  };
  const Recurrence recurrence = derived("exp2(-8 * (h + 1) / H)");
  INFO(print_recurrence(recurrence));
  CHECK(recurrence.slots.size() == 2);
  CHECK(recurrence.notes.empty());
  CHECK(slot(recurrence, "Z").op == Reduction::sum);
  // One that varies along the axis is bounded by a maximum.
  CHECK(derived("exp2(-8 * (j + 1) / H)").slots.size() > 2);
}
