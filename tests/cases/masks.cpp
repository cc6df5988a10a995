// Which keys a row sees, and what a row gives that sees none. With Q = 0 every visible key weighs the same, so that L
// is the logarithm of their number and O their mean. Restated from reports against other libraries, named at each case.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Case zero_queries(Algorithm algorithm, std::map<std::string, std::int64_t> extents, ScalarType dtype) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = std::move(extents);
  c.extents.try_emplace("Dv", c.extents.at("D"));
  c.extents.try_emplace("Hkv", c.extents.at("Hq"));
  c.dtype = dtype;
  fill_zero_queries_and_ramp(c);
  return c;
}

/// Keys that a row sees are first .. last, none where last < first.
struct Seen {
  std::int64_t first = 0, last = -1;
  std::int64_t count() const { return std::max<std::int64_t>(0, last - first + 1); }
};

/// O is the mean of (j + 1) / 256 over the keys seen, L the logarithm of their number.
void check_seen(const Case& c, const std::function<Seen(std::int64_t row)>& seen) {
  for_each_schedule(c, [&](const HostTensors& out) {
    require_values(
        out.at("O"),
        [&](const Index& at) {
          const Seen keys = seen(at[2]);
          return keys.count() == 0 ? 0.0 : static_cast<double>(keys.first + keys.last + 2) / 512;
        },
        // Sums of the ramp are exact in f32, but for schedules that divide each weight first.
        units(c.dtype, c.dtype == ScalarType::f32 ? 16 : 1));
    require_values(
        out.at("L"),
        [&](const Index& at) {
          const std::int64_t count = seen(at[2]).count();
          return count == 0 ? kMinusInfinity : std::log(static_cast<double>(count));
        },
        lse_tolerance);
  });
}

}  // namespace

TEST_CASE("N01: more rows than keys, aligned at the bottom right, leave the first rows empty") {
  // Dao-AILab/flash-attention#1778, pytorch/pytorch#108108: half of the rows wrong, or the alignment a guess.
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = zero_queries(causal_attention(), {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 5}, {"Sk", 2}, {"D", 16}},
                              ScalarType::f16);
  check_seen(c, [](std::int64_t row) { return Seen{0, row - 3}; });
}

TEST_CASE("N01: the same, aligned at the top left, is another algorithm") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = zero_queries(top_left_causal_attention(),
                              {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 5}, {"Sk", 2}, {"D", 16}}, ScalarType::f16);
  check_seen(c, [](std::int64_t row) { return Seen{0, std::min<std::int64_t>(row, 1)}; });
}

TEST_CASE("N01: few rows against many keys with unequal widths") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const ScalarType dtype : {ScalarType::f16, ScalarType::bf16, ScalarType::f32}) {
    const Case c = zero_queries(
        causal_attention(), {{"B", 2}, {"Hq", 3}, {"Hkv", 1}, {"Sq", 5}, {"Sk", 130}, {"D", 72}, {"Dv", 40}}, dtype);
    check_seen(c, [](std::int64_t row) { return Seen{0, row + 125}; });
  }
}

TEST_CASE("N01: one row against a cache sees all of it, or the first key alone") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::map<std::string, std::int64_t> extents = {{"B", 1}, {"Hq", 2}, {"Sq", 1}, {"Sk", 130}, {"D", 64}};
  check_seen(zero_queries(causal_attention(), extents, ScalarType::f16), [](std::int64_t) { return Seen{0, 129}; });
  check_seen(zero_queries(attention(), extents, ScalarType::f16), [](std::int64_t) { return Seen{0, 129}; });
  check_seen(zero_queries(top_left_causal_attention(), extents, ScalarType::f16), [](std::int64_t) {
    return Seen{0, 0};
  });
}

TEST_CASE("N05: whole tiles hidden by an additive mask of minus infinity leave the state as it was") {
  // pytorch/pytorch#127055: exp(-inf - -inf) in the rescale of rows whose first tiles are hidden.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.inputs = "mask: [Sq, Sk]";
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] + mask[i,j]"};
  Case c = zero_queries(attention(text), {{"B", 1}, {"Hq", 1}, {"Sq", 640}, {"Sk", 640}, {"D", 4}}, ScalarType::f32);
  c.inputs["mask"] = filled(ScalarType::f32, {640, 640}, [](const Index& at) {
    return at[1] <= at[0] && at[1] >= at[0] - 9 ? 0.0 : kMinusInfinity;
  });
  const auto seen = [](std::int64_t row) { return Seen{std::max<std::int64_t>(0, row - 9), row}; };
  check_seen(c, seen);
  // The same keys by a predicate.
  check_seen(zero_queries(attention_where("j >= i - 9 and j <= i"),
                          {{"B", 1}, {"Hq", 1}, {"Sq", 640}, {"Sk", 640}, {"D", 4}}, ScalarType::f32),
             seen);
}

TEST_CASE("N06: a row that a Boolean mask hides wholly gives 0 and minus infinity, and harms no other") {
  // pytorch/pytorch#103749: NaN, or the mean of V where minus infinity had a finite stand-in.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.inputs = "keep: {dims: [B, Sq, Sk], dtype: i32}";
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] where keep[b,i,j] == 1"};
  for (const ScalarType dtype : {ScalarType::f32, ScalarType::f16}) {
    // The second batch item has every row hidden.
    Case c = zero_queries(attention(text), {{"B", 2}, {"Hq", 2}, {"Sq", 6}, {"Sk", 10}, {"D", 8}}, dtype);
    c.inputs["keep"] = filled(ScalarType::i32, {2, 6, 10},
                              [](const Index& at) { return at[0] == 0 && at[1] < 5 && at[2] <= at[1] ? 1.0 : 0.0; });
    for_each_schedule(c, [&](const HostTensors& out) {
      const auto is_hidden = [](const Index& at) { return at[0] == 1 || at[2] == 5; };
      require_values(
          out.at("O"), [&](const Index& at) { return is_hidden(at) ? 0.0 : static_cast<double>(at[2] + 2) / 512; },
          units(dtype, 1));
      require_values(
          out.at("L"),
          [&](const Index& at) { return is_hidden(at) ? kMinusInfinity : std::log(static_cast<double>(at[2] + 1)); },
          lse_tolerance);
    });
  }
}

TEST_CASE("N07: an empty row has L = -inf, also where a tile loop is empty and where every tile is hidden") {
  // Dao-AILab/flash-attention PR 978, flashinfer-ai/flashinfer#4051: +inf, or NaN from merging empty parts.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::map<std::string, std::int64_t> extents = {{"B", 1}, {"Hq", 1}, {"Sq", 70}, {"Sk", 200}, {"D", 64}};
  // No key at all, by a predicate that no interval shows to be empty.
  check_seen(zero_queries(attention_where("j * j < 0"), extents, ScalarType::f16), [](std::int64_t) { return Seen{}; });
  check_seen(zero_queries(attention_where("j < 0"), extents, ScalarType::f16), [](std::int64_t) { return Seen{}; });
  // Only the last keys: three of four tiles are empty.
  check_seen(zero_queries(attention_where("j >= 192"), extents, ScalarType::f16), [](std::int64_t) {
    return Seen{192, 199};
  });
}

TEST_CASE("N09: a cap comes before the mask, so that hidden keys keep no weight") {
  // flashinfer-ai/flashinfer PR 350, Dao-AILab/flash-attention PR 1025.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.scalars = "cap: 1";
  text.steps = {"T[b,h,i,j] = cap * tanh(S[b,h,i,j] / cap)", "A[b,h,i,j] = T[b,h,i,j] where j <= i + Sk - Sq"};
  Case c = zero_queries(attention(text), {{"B", 1}, {"Hq", 1}, {"Sq", 4}, {"Sk", 4}, {"D", 16}}, ScalarType::f32);
  check_seen(c, [](std::int64_t row) { return Seen{0, row}; });
  // What a hidden key holds changes no bit: row 0 sees key 0 alone.
  std::vector<HostTensors> before;
  for_each_schedule(c, [&](const HostTensors& out) { before.push_back(out); });
  runtime::set(c.inputs.at("V"), Index{0, 0, 3, 5}, 1e30);
  std::size_t n = 0;
  for_each_schedule(c, [&](const HostTensors& out) {
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t e = 0; e < 16; ++e)
        REQUIRE(runtime::get(out.at("O"), Index{0, 0, row, e}) == runtime::get(before[n].at("O"), Index{0, 0, row, e}));
    ++n;
  });
}

TEST_CASE("N10: a window is inclusive on both sides") {
  // NVIDIA/TransformerEngine#1197, Dao-AILab/flash-attention#1133: off by one on the left.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] where j + Left >= i + Sk - Sq and j <= i + Sk - Sq + Right"};
  text.extents = "Left, Right";
  const Algorithm windowed = attention(text);
  const auto run = [&](std::int64_t length, std::int64_t heads, std::int64_t left, std::int64_t right) {
    const Case c = zero_queries(
        windowed,
        {{"B", 1}, {"Hq", heads}, {"Sq", length}, {"Sk", length}, {"D", 16}, {"Left", left}, {"Right", right}},
        ScalarType::f16);
    check_seen(c, [&](std::int64_t row) {
      return Seen{std::max<std::int64_t>(0, row - left), std::min(length - 1, row + right)};
    });
  };
  run(9, 1, 3, 0);
  run(9, 2, 0, 0);
  run(9, 1, 8, 0);
  run(9, 1, 2, 3);
  run(200, 1, 70, 5);
  run(200, 1, 0, 0);
}

TEST_CASE("N10: a window of 1024 and the key itself are 1025 keys") {
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = zero_queries(attention_where("j + 1024 >= i and j <= i"),
                              {{"B", 1}, {"Hq", 1}, {"Sq", 2048}, {"Sk", 2048}, {"D", 64}}, ScalarType::f16);
  for_each_schedule(c, [](const HostTensors& out) {
    // 1024 keys would give 6.931472.
    REQUIRE(std::fabs(runtime::get(out.at("L"), Index{0, 0, 2047}) - 6.932448) < 1e-5);
  });
}
