#include <catch2/catch.hpp>

#include "compiler/rewrite/recurrence.h"

using namespace astatide;

namespace {

/// Everything that an algorithm over s[i,j], r[i,j] and v[j,e] is refused with.
std::string rewrite_refusal(const std::string& define, const std::string& outputs, const DeriveOptions& options = {}) {
  const auto uses = [&](const std::string& word) { return define.find(word) != std::string::npos; };
  std::string inputs;
  const auto input = [&](const std::string& text) { inputs += (inputs.empty() ? "" : ", ") + text; };
  if (uses("s[i,")) input("s: [I, J]");
  if (uses("r[i,")) input("r: [I, J]");
  if (uses("v[j,e]")) input("v: [J, E]");
  const std::string text = std::string("algorithm: refused\nextents: [I, J") + (uses("v[j,e]") ? ", E" : "") +
                           "]\ninputs: {" + inputs + "}\ndefine:\n" + define + "outputs: [" + outputs + "]\n";
  try {
    derive_online(find_cascade(parse_algorithm(text, "refused.yaml")), options);
  } catch (const UserError& error) {
    std::string all;
    for (const Diagnostic& diagnostic : error.diagnostics()) all += format_diagnostic(diagnostic) + "\n";
    while (!all.empty() && all.back() == '\n') all.pop_back();
    return all;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a sigmoid of a score minus a maximum has no streaming form") {
  CHECK(rewrite_refusal("  - m[i] = max(j, s[i,j])\n"
                        "  - o[i,e] = sum(j, sigmoid(s[i,j] - m[i]) * v[j,e])\n",
                        "o") ==
        "refused.yaml:6:14: error: stage 'o': no streaming form: sub-expression sigmoid(s[i,j] - m) depends on the "
        "reduction axis through 's' and on reduction 'm', and does not split into a sum of products g(x)*h(r) "
        "(separation "
        "rank on random probes: at least 7)\n"
        "      - o[i,e] = sum(j, sigmoid(s[i,j] - m[i]) * v[j,e])\n"
        "                 ^\n"
        "note: schedule it without the streaming form (rewrite: none), which makes a pass for each reduction");
}

TEST_CASE("softmax of scores that are normalised over the reduced axis has no streaming form") {
  const std::string text = rewrite_refusal(
      "  - q[i] = sum(j, s[i,j] * s[i,j])\n"
      "  - l[i] = sum(j, exp(s[i,j] / sqrt(q[i])))\n",
      "l");
  CHECK_THAT(text,
             Catch::StartsWith("refused.yaml:6:12: error: stage 'l': no streaming form: sub-expression exp(s[i,j] / "
                               "sqrt(q)) depends on the reduction axis through 's' and on reduction 'q'"));
}

TEST_CASE("a mean absolute deviation has no streaming form") {
  const std::string text = rewrite_refusal(
      "  - n[i] = sum(j, 1)\n"
      "  - mu[i] = sum(j, s[i,j]) / n[i]\n"
      "  - d[i] = sum(j, abs(s[i,j] - mu[i]))\n",
      "d");
  CHECK_THAT(text,
             Catch::StartsWith("refused.yaml:7:12: error: stage 'd': no streaming form: sub-expression abs(s[i,j] - "));
  CHECK_THAT(text, Catch::Contains("and on reduction 'n' and 'mu_sum', and does not split"));
}

TEST_CASE("a maximum of a product with a factor of unknown sign is refused") {
  CHECK_THAT(
      rewrite_refusal("  - q[i] = sum(j, s[i,j])\n"
                      "  - w[i] = max(j, s[i,j] * q[i])\n",
                      "w"),
      Catch::StartsWith("refused.yaml:6:12: error: stage 'w': max of a(x)*h(r) distributes only if h > 0, and q is "
                        "not known to be positive"));
}

TEST_CASE("a stage with more sums than the limit is refused with both numbers") {
  DeriveOptions options;
  options.max_slots = 2;
  CHECK_THAT(rewrite_refusal("  - l[i] = sum(j, s[i,j])\n"
                             "  - t[i] = sum(j, s[i,j] * s[i,j] + r[i,j] * l[i] + s[i,j] * r[i,j] / l[i])\n",
                             "t", options),
             Catch::StartsWith("refused.yaml:6:12: error: stage 't': needs 3 carried sums, more than the limit 2"));
}

TEST_CASE("an output along the reduction axis is refused") {
  CHECK_THAT(
      rewrite_refusal("  - P[i,j] = softmax(j, s[i,j])\n", "P"),
      Catch::StartsWith("refused.yaml:5:5: error: output 'P' varies along the reduction axis through 's'; it cannot be "
                        "produced by a streaming pass (write it with a second pass from the saved LSE)"));
}

TEST_CASE("an indicator against anything but a maximum of the same expression is refused") {
  CHECK_THAT(
      rewrite_refusal("  - m[i] = max(j, s[i,j])\n"
                      "  - h[i] = sum(j, select(r[i,j] == m[i], 1, 0))\n",
                      "h"),
      Catch::StartsWith("refused.yaml:6:12: error: stage 'h': indicator select(r[i,j] == m, 1, 0) is only supported "
                        "against a max or min reduction of the same expression"));
}

TEST_CASE("a stage that reads a later one is refused") {
  Cascade cascade;
  cascade.axis = "j";
  cascade.rows = {"i"};
  cascade.axis_extents = {{"i", variable("I")}, {"j", variable("J")}};
  const Expr s = read("s", {variable("i"), variable("j")});
  const Location where{"built.yaml", 3, 5, ""};
  cascade.stages = {{"l", Reduction::sum, {}, exp(s - variable("m")), false, where},
                    {"m", Reduction::max, {}, s, false, {}}};
  cascade.values = {{"l", {"i"}, variable("l"), {}, true, {}}};
  try {
    derive_online(cascade);
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(format_location(error.diagnostics()[0].where) == "built.yaml:3:5");
    CHECK(error.diagnostics()[0].message ==
          "stage 'l': uses 'm' before it is defined (reductions must be listed in dependency order and must not be "
          "recursive)");
  }
}

TEST_CASE("stages over different axes are refused with both axes") {
  CHECK_THAT(rewrite_refusal("  - m[i] = max(k, s[i,k])\n"
                             "  - l[i] = sum(j, exp(s[i,j] - m[i]))\n",
                             "l"),
             Catch::StartsWith(
                 "refused.yaml:6:12: error: stage 'l' reduces over j but reads 'm', which reduces over k; stages "
                 "of one cascade must share the axis"));
  CHECK_THAT(
      rewrite_refusal("  - m[i] = max(j, s[i,j])\n"
                      "  - l[i] = max(k, r[i,k])\n",
                      "l, m"),
      Catch::StartsWith("refused.yaml:6:12: error: the outputs need reductions over j (in 'm') and over k (in 'l'); "
                        "stages of one cascade must share the axis"));
}

TEST_CASE("an element that is no product of tiles is refused") {
  const std::string text =
      "algorithm: refused\nextents: [I, J, D]\ninputs: {Q: [I, D], K: [J, D]}\ndefine:\n"
      "  - S[i,j] = sum(d, abs(Q[i,d] - K[j,d]))\n"
      "  - m[i] = max(j, S[i,j])\noutputs: [m]\n";
  try {
    find_cascade(parse_algorithm(text, "refused.yaml"));
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(format_location(error.diagnostics()[0].where) == "refused.yaml:5:14");
    CHECK(error.diagnostics()[0].message ==
          "'S' reduces over d inside values along j: sum(d, abs(Q[i,d] - K[j,d])) is not a sum of products of a row's "
          "tile and a tile along j");
  }
}

TEST_CASE("a choice between values of which only one can be absent is refused, one between absent ones is not") {
  const std::string masked = "  - a[i,j] = s[i,j] where j <= i\n";
  CHECK(rewrite_refusal(masked + "  - b[i,j] = select(j > 3, a[i,j], 1)\n  - o[i] = sum(j, b[i,j])\n", "o") ==
        "refused.yaml:6:14: error: select(j > 3, a[i,j], 1) chooses between values of which only one can be absent\n"
        "      - b[i,j] = select(j > 3, a[i,j], 1)\n"
        "                 ^\n"
        "note: put the predicate on 'b' itself, so that it holds for every choice");
  CHECK_THAT(rewrite_refusal(masked + "  - o[i] = sum(j, select(r[i,j] > 0 and a[i,j] > 0, 1, 0))\n", "o"),
             Catch::Contains("only one can be absent"));
  CHECK(rewrite_refusal(masked + "  - o[i] = sum(j, select(a[i,j] > 0, a[i,j], 1))\n", "o") == "accepted");
  CHECK(rewrite_refusal(masked + "  - o[i] = sum(j, select(r[i,j] > 0, a[i,j], 2 * a[i,j]))\n", "o") == "accepted");
}

TEST_CASE("an algorithm without a reduction is refused") {
  CHECK_THAT(
      rewrite_refusal("  - o[i,j] = s[i,j] + 1\n", "o"),
      Catch::StartsWith("refused.yaml:5:5: error: no output reduces over an axis, so there is nothing to stream over"));
}

TEST_CASE("an exponential that nothing bounds is a note where no maximum may be inserted") {
  DeriveOptions options;
  options.stabilise = false;
  const std::string text =
      "algorithm: noted\nextents: [I, J]\ninputs: {s: [I, J]}\ndefine:\n  - l[i] = sum(j, exp(s[i,j]))\noutputs: [l]\n";
  const Recurrence recurrence = derive_online(find_cascade(parse_algorithm(text, "noted.yaml")), options);
  REQUIRE(recurrence.notes.size() == 1);
  CHECK(recurrence.notes[0] ==
        "stage 'l': exponent s[i,j] is not bounded above by any reduction; it may overflow (enable stabilise)");
}
