// Known failures of attention kernels, restated: the oracle must give the closed form. Needed by every test that
// compares a kernel with the oracle.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/case_data.h"
#include "tests/support/infinity.h"

namespace astatide::testing {
namespace {

/// The same value in every channel of a row of O.
double row(const std::map<std::string, DoubleTensor>& outputs, const std::vector<std::int64_t>& position) {
  const DoubleTensor& o = outputs.at("O");
  std::vector<std::int64_t> index = position;
  index.push_back(0);
  const double first = element(o, index);
  for (std::int64_t e = 1; e < o.shape.back(); ++e) {
    index.back() = e;
    REQUIRE(element(o, index) == first);
  }
  return first;
}

double lse(const std::map<std::string, DoubleTensor>& outputs, const std::vector<std::int64_t>& position) {
  return element(outputs.at("L"), position);
}

Sizes sizes(std::int64_t b, std::int64_t hq, std::int64_t hkv, std::int64_t sq, std::int64_t sk, std::int64_t d) {
  return {{"B", b}, {"Hq", hq}, {"Hkv", hkv}, {"Sq", sq}, {"Sk", sk}, {"D", d}, {"Dv", d}};
}

Approx near(double value) { return Approx(value).epsilon(1e-12).margin(1e-12); }

}  // namespace

TEST_CASE("N01: more queries than keys, aligned at the end, leave the first rows empty") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const auto outputs = evaluate(algorithm, zero_q_ramp_v(algorithm, sizes(1, 2, 1, 5, 2, 16)));
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(row(outputs, {0, h, i}) == 0);
      CHECK(lse(outputs, {0, h, i}) == -kInfinity);
    }
    CHECK(row(outputs, {0, h, 3}) == 0.00390625);
    CHECK(lse(outputs, {0, h, 3}) == 0);
    CHECK(row(outputs, {0, h, 4}) == 0.005859375);
    CHECK(lse(outputs, {0, h, 4}) == near(std::log(2.0)));
  }
}

TEST_CASE("N01: aligned at the start every row sees a key") {
  const Algorithm algorithm = example_algorithm("causal_top_left");
  const auto outputs = evaluate(algorithm, zero_q_ramp_v(algorithm, sizes(1, 2, 1, 5, 2, 16)));
  CHECK(row(outputs, {0, 1, 0}) == 0.00390625);
  CHECK(lse(outputs, {0, 1, 0}) == 0);
  for (std::int64_t i = 1; i < 5; ++i) {
    CHECK(row(outputs, {0, 1, i}) == 0.005859375);
    CHECK(lse(outputs, {0, 1, i}) == near(std::log(2.0)));
  }
}

TEST_CASE("N01: fewer queries than keys, aligned at the end") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  Sizes extents = sizes(2, 3, 1, 5, 130, 72);
  extents["Dv"] = 40;
  const auto outputs = evaluate(algorithm, zero_q_ramp_v(algorithm, extents));
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(row(outputs, {1, 2, i}) == near(static_cast<double>(i + 127) / 512));
    CHECK(lse(outputs, {1, 2, i}) == near(std::log(static_cast<double>(i + 126))));
  }
}

TEST_CASE("N01: one query sees all keys aligned at the end, and the first aligned at the start") {
  const Sizes extents = sizes(1, 1, 1, 1, 130, 16);
  const Algorithm at_end = example_algorithm("causal_gqa");
  const auto outputs = evaluate(at_end, zero_q_ramp_v(at_end, extents));
  CHECK(row(outputs, {0, 0, 0}) == near(0.255859375));
  CHECK(lse(outputs, {0, 0, 0}) == near(std::log(130.0)));
  const Algorithm unmasked = example_algorithm("attention");
  CHECK(evaluate(unmasked, zero_q_ramp_v(unmasked, extents)).at("O").values == outputs.at("O").values);
  const Algorithm at_start = example_algorithm("causal_top_left");
  const auto first = evaluate(at_start, zero_q_ramp_v(at_start, extents));
  CHECK(row(first, {0, 0, 0}) == 0.00390625);
  CHECK(lse(first, {0, 0, 0}) == 0);
}

TEST_CASE("N02: scores far below zero don't underflow the row") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const auto outputs = evaluate(algorithm, constant_scores(algorithm, sizes(1, 14, 2, 88, 448, 64), 5, -5));
  for (std::int64_t i = 0; i < 88; ++i) {
    const auto n = static_cast<double>(i + 361);
    CHECK(row(outputs, {0, 13, i}) == near((n + 1) / 512));
    CHECK(lse(outputs, {0, 13, i}) == near(-200 + std::log(n)));
  }
  CHECK(lse(outputs, {0, 0, 2}) == Approx(-194.105597).margin(1e-6));
}

TEST_CASE("N03: no finite score is too low") {
  const Algorithm algorithm = example_algorithm("attention");
  Arguments arguments = constant_scores(algorithm, sizes(1, 32, 8, 1, 1, 128), 64, -64);
  arguments.inputs["V"] = constant_tensor({1, 8, 1, 128}, 1);
  auto outputs = evaluate(algorithm, arguments);
  CHECK(row(outputs, {0, 31, 0}) == 1);
  CHECK(lse(outputs, {0, 31, 0}) == Approx(-46340.950).margin(1e-3));
  arguments = constant_scores(algorithm, sizes(1, 32, 8, 1, 3, 128), 64, -64);
  for (double& v : arguments.inputs["V"].values) v *= 256;
  outputs = evaluate(algorithm, arguments);
  CHECK(row(outputs, {0, 0, 0}) == near(2));
  CHECK(lse(outputs, {0, 0, 0}) == Approx(-46339.851).margin(1e-3));
}

TEST_CASE("N05: minus infinity in a bias hides keys as a window does") {
  const Sizes extents = sizes(1, 1, 1, 640, 640, 4);
  const Algorithm biased = example_algorithm("additive_bias");
  Arguments arguments = zero_q_ramp_v(biased, extents);
  arguments.inputs["bias"] = make_tensor({1, 1, 640, 640}, [](const std::vector<std::int64_t>& at) {
    return at[3] <= at[2] && at[3] > at[2] - 10 ? 0 : -kInfinity;
  });
  const auto outputs = evaluate(biased, arguments);
  for (std::int64_t i = 0; i < 640; ++i)
    CHECK(lse(outputs, {0, 0, i}) == near(std::log(static_cast<double>(std::min<std::int64_t>(i + 1, 10)))));
  CHECK(row(outputs, {0, 0, 5}) == near(0.013671875));
  CHECK(row(outputs, {0, 0, 300}) == near(1.158203125));
  CHECK(row(outputs, {0, 0, 639}) == near(2.482421875));
  const Algorithm window = example_algorithm("sliding_window");
  Sizes windowed = extents;
  windowed["Left"] = 9;
  windowed["Right"] = 0;
  const auto same = evaluate(window, zero_q_ramp_v(window, windowed));
  for (std::int64_t i = 0; i < 640; ++i) CHECK(row(same, {0, 0, i}) == near(row(outputs, {0, 0, i})));
}

TEST_CASE("A row whose whole bias is minus infinity is a row without a visible key") {
  const Algorithm biased = example_algorithm("additive_bias");
  Arguments arguments = zero_q_ramp_v(biased, sizes(1, 1, 1, 1, 5, 4));
  arguments.inputs["bias"] = constant_tensor({1, 1, 1, 5}, -kInfinity);
  const auto outputs = evaluate(biased, arguments);
  CHECK(row(outputs, {0, 0, 0}) == 0);
  CHECK(lse(outputs, {0, 0, 0}) == -kInfinity);
}

TEST_CASE("N06: rows of padding in a mask of booleans") {
  const Algorithm algorithm = parse_algorithm(R"(
algorithm: masked
extents: [B, H, Sq, Sk, D]
scalars: {scale: 1/sqrt(D)}
inputs: {Q: [B, H, Sq, D], K: [B, H, Sk, D], V: [B, H, Sk, D], mask: {dims: [B, Sq, Sk], dtype: bool}}
define:
  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale
  - A[b,h,i,j] = S[b,h,i,j] where mask[b,i,j]
  - P[b,h,i,j] = softmax(j, A[b,h,i,j])
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])
  - L[b,h,i] = logsumexp(j, A[b,h,i,j])
outputs: [O, L]
)",
                                              "masked.yaml");
  Arguments arguments = zero_q_ramp_v(algorithm, {{"B", 2}, {"H", 2}, {"Sq", 6}, {"Sk", 10}, {"D", 8}});
  arguments.inputs["mask"] = make_tensor({2, 6, 10}, [](const std::vector<std::int64_t>& at) {
    return at[0] == 0 && at[1] < 5 && at[2] <= at[1] ? 1 : 0;
  });
  const auto outputs = evaluate(algorithm, arguments);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(row(outputs, {0, 1, i}) == near(static_cast<double>(i + 2) / 512));
    CHECK(lse(outputs, {0, 1, i}) == near(std::log(static_cast<double>(i + 1))));
  }
  CHECK(row(outputs, {0, 1, 5}) == 0);
  CHECK(lse(outputs, {0, 1, 5}) == -kInfinity);
  // Every row of the second batch item is hidden.
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(row(outputs, {1, 0, i}) == 0);
    CHECK(lse(outputs, {1, 0, i}) == -kInfinity);
  }
}

TEST_CASE("N07: merging partial results keeps empty ones empty and others bit for bit") {
  const Algorithm merge = parse_algorithm(R"(
algorithm: merge
extents: [Parts, D]
inputs: {part: [Parts, D], weight: [Parts]}
define:
  - O[e] = sum(t, softmax(t, weight[t]) * part[t,e])
  - L[] = logsumexp(t, weight[t])
outputs: [O, L]
)",
                                          "merge.yaml");
  const auto merged = [&](double a, double weight_a, double b, double weight_b) {
    Arguments arguments;
    arguments.extents = {{"Parts", 2}, {"D", 64}};
    arguments.inputs["part"] =
        make_tensor({2, 64}, [&](const std::vector<std::int64_t>& at) { return at[0] == 0 ? a : b; });
    arguments.inputs["weight"] = {{2}, {weight_a, weight_b}};
    const auto outputs = evaluate(merge, arguments);
    return std::pair(row(outputs, {}), lse(outputs, {}));
  };
  CHECK(merged(0, -kInfinity, 0, -kInfinity) == std::pair(0.0, -kInfinity));
  CHECK(merged(0, -kInfinity, 1.25, 0.7) == std::pair(1.25, 0.7));
  CHECK(merged(1.25, 0.7, 0, -kInfinity) == std::pair(1.25, 0.7));
  CHECK(merged(1, 0.7, 3, 0.7).first == 2);
  CHECK(merged(1, 0.7, 3, 0.7).second == Approx(1.393147).margin(1e-6));
}

TEST_CASE("N09: the cap comes before the mask") {
  Algorithm algorithm = parse_algorithm(R"(
algorithm: capped
extents: [B, Hq, Hkv, Sq, Sk, D, Dv]
scalars: {scale: 1/sqrt(D), cap: null}
inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, Dv]}
define:
  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale
  - A[b,h,i,j] = cap * tanh(S[b,h,i,j] / cap) where j <= i + Sk - Sq
  - P[b,h,i,j] = softmax(j, A[b,h,i,j])
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])
  - L[b,h,i] = logsumexp(j, A[b,h,i,j])
outputs: [O, L]
)",
                                        "capped.yaml");
  Arguments arguments = zero_q_ramp_v(algorithm, sizes(1, 1, 1, 4, 4, 16));
  arguments.scalars["cap"] = 1;
  const auto outputs = evaluate(algorithm, arguments);
  CHECK(row(outputs, {0, 0, 0}) == 0.00390625);
  CHECK(lse(outputs, {0, 0, 0}) == 0);
  for (std::size_t i = 16; i < 64; ++i) arguments.inputs["V"].values[i] = 1e6;
  CHECK(row(evaluate(algorithm, arguments), {0, 0, 0}) == 0.00390625);
}

TEST_CASE("N10: a window is inclusive on both sides") {
  const Algorithm algorithm = example_algorithm("sliding_window");
  const auto outputs = [&](std::int64_t sq, std::int64_t sk, std::int64_t left) {
    Sizes extents = sizes(1, 1, 1, sq, sk, 16);
    extents["Left"] = left;
    extents["Right"] = 0;
    return evaluate(algorithm, zero_q_ramp_v(algorithm, extents));
  };
  const auto narrow = outputs(9, 9, 3);
  for (std::int64_t i = 0; i < 9; ++i)
    CHECK(lse(narrow, {0, 0, i}) == near(std::log(static_cast<double>(std::min<std::int64_t>(i + 1, 4)))));
  CHECK(row(narrow, {0, 0, 8}) == near(0.029296875));
  // The last query of many.
  CHECK(lse(outputs(1, 2048, 1024), {0, 0, 0}) == near(std::log(1025.0)));
  const auto diagonal = outputs(9, 9, 0);
  for (std::int64_t i = 0; i < 9; ++i) CHECK(row(diagonal, {0, 0, i}) == static_cast<double>(i + 1) / 256);
  const Algorithm causal = example_algorithm("causal_gqa");
  CHECK(outputs(9, 9, 8).at("O").values ==
        evaluate(causal, zero_q_ramp_v(causal, sizes(1, 1, 1, 9, 9, 16))).at("O").values);
}

TEST_CASE("N19: products beyond the range of f16") {
  const Algorithm algorithm = example_algorithm("attention");
  for (const double sign : {1.0, -1.0}) {
    const auto outputs =
        evaluate(algorithm, constant_scores(algorithm, sizes(1, 2, 2, 1, 5, 128), sign * 64, sign * 64));
    CHECK(row(outputs, {0, 1, 0}) == near(0.01171875));
    CHECK(lse(outputs, {0, 1, 0}) == Approx(46342.559).margin(1e-2));
  }
}

TEST_CASE("Empty extents give empty results, and no keys give rows without a visible key") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  CHECK(evaluate(algorithm, zero_q_ramp_v(algorithm, sizes(0, 2, 2, 3, 4, 8))).at("O").shape ==
        std::vector<std::int64_t>{0, 2, 3, 8});
  CHECK(evaluate(algorithm, zero_q_ramp_v(algorithm, sizes(2, 2, 2, 0, 4, 8))).at("L").values.empty());
  const auto outputs = evaluate(algorithm, zero_q_ramp_v(algorithm, sizes(1, 2, 2, 3, 0, 8)));
  CHECK(row(outputs, {0, 1, 2}) == 0);
  CHECK(lse(outputs, {0, 1, 2}) == -kInfinity);
}

}  // namespace astatide::testing
