// Values that other implementations got wrong: constant scores far from 0, long sums, widths that no tile divides. The
// exact value is the target.
#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/algorithm/evaluate.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Case constant_scores(Algorithm algorithm, std::map<std::string, std::int64_t> extents, ScalarType dtype, double q,
                     double k) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = std::move(extents);
  c.extents.try_emplace("Dv", c.extents.at("D"));
  c.extents.try_emplace("Hkv", c.extents.at("Hq"));
  c.dtype = dtype;
  fill_zero_queries_and_ramp(c);
  c.inputs["Q"] = constant(dtype, query_shape(c), q);
  c.inputs["K"] = constant(dtype, key_shape(c), k);
  return c;
}

}  // namespace

TEST_CASE("N02: rows whose scores are all far below 0 keep their weight when a hidden tile comes first") {
  // Dao-AILab/flash-attention#2082: the stand-in for a maximum of minus infinity was kept.
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c =
      constant_scores(causal_attention(), {{"B", 1}, {"Hq", 14}, {"Hkv", 2}, {"Sq", 88}, {"Sk", 448}, {"D", 64}},
                      ScalarType::f16, 5, -5);
  for_each_schedule(c, [&](const HostTensors& out) {
    require_values(
        out.at("O"), [](const Index& at) { return static_cast<double>(at[2] + 362) / 512; }, units(c.dtype, 1));
    require_values(
        out.at("L"), [](const Index& at) { return -200 + std::log(static_cast<double>(at[2] + 361)); }, lse_tolerance);
  });
}

TEST_CASE("N03: scores below -5e4 are as good as any") {
  // flashinfer-ai/flashinfer#4267: a finite stand-in for minus infinity gave zeros.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::map<std::string, std::int64_t> extents = {{"B", 1}, {"Hq", 32}, {"Hkv", 8}, {"Sq", 1}, {"D", 128}};
  const auto near = [](double) { return 0.01; };
  for (const std::int64_t keys : {1, 3}) {
    auto sized = extents;
    sized["Sk"] = keys;
    Case c = constant_scores(attention(), sized, ScalarType::bf16, 64, -64);
    c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return static_cast<double>(at[2] + 1); });
    for_each_schedule(c, [&](const HostTensors& out) {
      require_values(
          out.at("O"), [&](const Index&) { return keys == 1 ? 1.0 : 2.0; }, units(c.dtype, 0));
      require_values(
          out.at("L"), [&](const Index&) { return keys == 1 ? -46340.950 : -46339.851; }, near);
    });
  }
}

TEST_CASE("N04: a sum of many equal weights is exact, whatever the type of the inputs") {
  // huggingface/candle#3727: sums in f16 stop at 2048.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const ScalarType dtype : {ScalarType::f16, ScalarType::bf16}) {
    for (const std::int64_t keys : {2048, 2049, 4096, 8192, 65537}) {
      Case c = constant_scores(attention(), {{"B", 1}, {"Hq", 1}, {"Sq", 4}, {"Sk", keys}, {"D", 64}}, dtype, 0, 1);
      c.inputs["V"] = constant(dtype, value_shape(c), 1);
      for_each_schedule(c, [&](const HostTensors& out) {
        require_values(
            out.at("O"), [](const Index&) { return 1.0; }, units(dtype, 0));
        require_values(
            out.at("L"), [&](const Index&) { return std::log(static_cast<double>(keys)); }, lse_tolerance);
      });
    }
  }
}

TEST_CASE("N13: every channel counts and every channel is written, for any width") {
  // Dao-AILab/flash-attention#1214: the last channels of width 192; triton-lang/triton#621: only 64 of 128.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.scale = "1";
  std::size_t turn = 0;
  for (const std::int64_t width : {1, 8, 40, 72, 80, 96, 128, 192, 256}) {
    for (const std::int64_t value_width : {width, std::int64_t{40}, std::int64_t{128}}) {
      Case c;
      c.algorithm = attention(text);
      c.extents = {{"B", 1}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 3}, {"Sk", 2}, {"D", width}, {"Dv", value_width}};
      c.dtype = ScalarType::f16;
      c.inputs["Q"] = filled(c.dtype, query_shape(c), [&](const Index& at) { return at[3] == width - 1 ? 1.0 : 0.0; });
      c.inputs["K"] =
          filled(c.dtype, key_shape(c), [&](const Index& at) { return at[3] == width - 1 && at[2] == 1 ? 1.0 : 0.0; });
      c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return at[2] == 1 ? 1.0 : 0.0; });
      INFO("D " << width << ", Dv " << value_width);
      for_schedules_in_turn(c, turn++, [&](const HostTensors& out) {
        require_values(
            out.at("O"), [](const Index&) { return 1 / (1 + std::exp(-1.0)); }, units(c.dtype, 1));
        require_values(
            out.at("L"), [](const Index&) { return std::log1p(std::exp(1.0)); }, lse_tolerance);
      });
    }
  }
}

TEST_CASE("N17: a score function and a mask together leave the tail of a row as any other part") {
  // pytorch/pytorch#153799: NaN for lengths that are no multiple of the tile.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.steps = {"T[b,h,i,j] = S[b,h,i,j] + (i - j)", "A[b,h,i,j] = T[b,h,i,j] where j <= i"};
  for (const std::int64_t length : {1, 127, 128, 129, 137, 1025}) {
    const Case c = constant_scores(attention(text), {{"B", 1}, {"Hq", 1}, {"Sq", length}, {"Sk", length}, {"D", 64}},
                                   ScalarType::bf16, 0, 1);
    INFO("length " << length);
    std::vector<double> means;
    double weights = 0;
    double sum = 0;
    for (std::int64_t row = 0; row < length; ++row) {
      // The weight of key j is exp(i - j), in proportion to exp(-j).
      const double weight = std::exp(-static_cast<double>(row));
      weights += weight;
      sum += weight * runtime::get(c.inputs.at("V"), Index{0, 0, row, 0});
      means.push_back(sum / weights);
    }
    for_each_schedule(c, [&](const HostTensors& out) {
      require_values(
          out.at("L"),
          [](const Index& at) {
            const auto row = static_cast<double>(at[2]);
            return row + std::log((1 - std::exp(-(row + 1))) / (1 - std::exp(-1.0)));
          },
          lse_tolerance);
      require_values(
          out.at("O"), [&](const Index& at) { return means[static_cast<std::size_t>(at[2])]; }, units(c.dtype, 1));
    });
  }
}

TEST_CASE("N19: products over the range of f16 are no trouble before the scale") {
  // ggml-org/llama.cpp#7805.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const double value : {64.0, -64.0}) {
    const Case c = constant_scores(attention(), {{"B", 1}, {"Hq", 2}, {"Sq", 1}, {"Sk", 5}, {"D", 128}},
                                   ScalarType::f16, value, value);
    for_each_schedule(c, [&](const HostTensors& out) {
      require_values(
          out.at("O"), [](const Index&) { return 0.01171875; }, units(c.dtype, 0));
      require_values(
          out.at("L"), [](const Index&) { return 46342.559; }, [](double) { return 0.01; });
    });
  }
}

TEST_CASE("N18: f32 means f32: a product that TF32 would round away is there") {
  // triton-lang/triton#1671.
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.scale = "64";
  Case c;
  c.algorithm = attention(text);
  c.extents = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 2}, {"D", 64}, {"Dv", 64}};
  c.inputs["Q"] = filled(c.dtype, query_shape(c), [](const Index& at) { return at[3] < 32 ? 1 + 0x1p-11 : 1.0; });
  c.inputs["K"] = filled(c.dtype, key_shape(c), [](const Index& at) {
    return at[2] == 1 ? 0.0 : at[3] < 32 ? 1.0 : -1.0;
  });
  c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return at[2] == 0 ? 1.0 : 0.0; });
  for_each_schedule(c, [&](const HostTensors& out) {
    require_values(
        out.at("O"), [](const Index&) { return 1 / (1 + std::exp(-1.0)); }, [](double) { return 1e-6; });
    require_values(
        out.at("L"), [](const Index&) { return std::log1p(std::exp(1.0)); }, lse_tolerance);
  });
}
