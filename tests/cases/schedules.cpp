// Schedules: any legal one gives the values of any other, and what can't be honoured is refused.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

#include "compiler/algorithm/evaluate.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Case gaussian_case(std::map<std::string, std::int64_t> extents, std::uint64_t seed,
                   Algorithm algorithm = causal_attention()) {
  Case c;
  c.algorithm = std::move(algorithm);
  c.extents = std::move(extents);
  fill_gaussian(c, seed);
  return c;
}

std::map<std::string, DoubleTensor> oracle_of(const Case& c) {
  Arguments arguments;
  arguments.extents = c.extents;
  for (const auto& [name, tensor] : c.inputs) arguments.inputs[name] = {tensor.shape, runtime::to_doubles(tensor)};
  return evaluate(c.algorithm, arguments);
}

/// Within 1e-5 of the oracle everywhere, and nowhere NaN.
void require_close(const HostTensors& out, const std::map<std::string, DoubleTensor>& oracle) {
  for (const auto& [name, tensor] : out) {
    const std::vector<double> values = runtime::to_doubles(tensor);
    const std::vector<double>& exact = oracle.at(name).values;
    double worst = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (std::isinf(exact[n])) {
        REQUIRE(values[n] == exact[n]);
        continue;
      }
      const double error = std::fabs(values[n] - exact[n]) / std::max(1.0, std::fabs(exact[n]));
      // A NaN compares false: it is the worst.
      worst = error <= worst ? worst : error;
      if (!(error <= 1e9)) worst = INFINITY;
    }
    INFO(name);
    REQUIRE(worst < 1e-5);
  }
}

/// simt/flash2 with other tiles.
std::string flash2_text(int rows, int columns) {
  return "target: sm_80\nrewrite: online\n"
         "O: {tile: {i: " +
         std::to_string(rows) + ", j: " + std::to_string(columns) +
         "}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [8, 8]}\n"
         "S: {compute_at: j.o, store_in: register}\n"
         "P: {compute_at: j.o, store_in: shared}\n"
         "Q: {stage_at: i.o, store_in: shared}\n"
         "K: {stage_at: j.o, store_in: shared}\n"
         "V: {stage_at: j.o, store_in: shared}\n";
}

template <class T>
const T& choose(std::mt19937& generator, const std::vector<T>& from) {
  return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(generator)];
}

/// A schedule that looks like those of people. Some are illegal.
std::string random_schedule(std::mt19937& generator) {
  const bool online = choose<int>(generator, {0, 1, 1}) != 0;
  const bool kv_outer = online && choose<int>(generator, {0, 0, 1}) != 0;
  const std::string inner = kv_outer ? "i.o" : "j.o";
  const std::string rows = std::to_string(choose<int>(generator, {8, 16, 32, 48, 64}));
  const std::string columns = std::to_string(choose<int>(generator, {8, 16, 24, 32, 64, 128, 256}));
  const std::string place = choose<std::string>(generator, {"shared", "register"});
  const std::string threads = choose<std::string>(generator, {"[8, 8]", "[4, 8]", "[8, 16]", "[16, 16]"});
  const auto ring = [&] {
    return choose<int>(generator, {0, 0, 1}) == 0 ? std::string() : std::string(", ring_buffer: 2");
  };
  std::string text = "target: sm_80\nrewrite: " + std::string(online ? "online" : "none") + "\n";
  if (!online) text += "bound: {Sk: 256}\n";
  text += "O: {tile: {i: " + rows + ", j: " + columns + "}, reorder: [b, h, ";
  text += kv_outer ? "j.o, i.o], gpu_blocks: [h, b]" : "i.o, j.o], gpu_blocks: [i.o, h, b]";
  text += ", threads: " + threads + "}\n";
  text +=
      "S: {compute_at: " + std::string(online ? inner : "i.o") + ", store_in: " + (online ? place : "shared") + "}\n";
  text += "P: {compute_at: " + inner + ", store_in: shared}\n";
  text += "Q: {stage_at: i.o, store_in: shared}\n";
  text += "K: {stage_at: j.o, store_in: shared" + ring() + "}\n";
  text += "V: {stage_at: j.o, store_in: shared" + ring() + "}\n";
  return text;
}

}  // namespace

TEST_CASE("S02: tiles that divide neither length give the values of any others") {
  // halide/Halide#7764: a split inside a split overwrote its neighbours.
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = gaussian_case({{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 37}, {"Sk", 130}, {"D", 24}, {"Dv", 40}}, 31);
  const auto oracle = oracle_of(c);
  int taken = 0;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{16, 16}, {32, 48}, {64, 8}, {8, 128}, {48, 24}}) {
    INFO("tiles of " << rows << " x " << columns);
    require_close(run_case(c, parse_schedule(flash2_text(rows, columns), "tiles.yaml")), oracle);
    ++taken;
  }
  REQUIRE(taken == 5);
}

TEST_CASE("S03: random legal schedules give the values of the algorithm") {
  // apache/tvm#15911: a stage moved under a split loop computed a part.
  ASTATIDE_NEED_CASE_DEVICE();
  const Case c = gaussian_case({{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 37}, {"Sk", 130}, {"D", 24}, {"Dv", 40}}, 41);
  const auto oracle = oracle_of(c);
  constexpr unsigned kSeed = 0;
  std::mt19937 generator(kSeed);
  std::set<std::string> tried;
  int legal = 0;
  while (tried.size() < 200) {
    const std::string text = random_schedule(generator);
    if (!tried.insert(text).second) continue;
    INFO("seed " << kSeed << ", schedule " << tried.size() << ":\n" << text);
    HostTensors out;
    try {
      out = run_case(c, parse_schedule(text, "random.yaml"));
    } catch (const UserError&) {
      continue;
    }
    ++legal;
    require_close(out, oracle);
  }
  REQUIRE(legal >= 100);
}

TEST_CASE("S01: an illegal place is a user's error that lists the legal ones") {
  // halide/Halide#7077: 'Symbol not found' from a late pass.
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = flash2_text(64, 64);
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    try {
      compile(causal_attention(), parse_schedule(text, "s.yaml"),
              {*find_target("sm_80"), {{"D", 64}, {"Dv", 64}}, ScalarType::f32});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string score = "S: {compute_at: j.o";
  using Catch::Contains;
  CHECK_THAT(refusal(score, "S: {compute_at: b"), Contains("s.yaml:4:") && Contains("j.o"));
  CHECK_THAT(refusal(score, "S: {compute_at: threads"), Contains("s.yaml:4:") && Contains("j.o"));
  CHECK_THAT(refusal(score, "S: {compute_at: d"), Contains("s.yaml:4:") && Contains("j.o"));
  CHECK_THAT(refusal(score, "S: {compute_at: k.o"), Contains("s.yaml:4:") && Contains("j.o"));
}

TEST_CASE("S06: each feature changes the result as it should, on this device") {
  // Dao-AILab/flash-attention#2897: a sparse description was accepted and ignored.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::map<std::string, std::int64_t> extents = {{"B", 1},   {"Hq", 2}, {"Hkv", 2}, {"Sq", 40},
                                                       {"Sk", 70}, {"D", 16}, {"Dv", 16}};
  const HostTensors dense = run_case(gaussian_case(extents, 51, attention()), "simt/flash2");
  AttentionText capped;
  capped.steps = {"A[b,h,i,j] = tanh(S[b,h,i,j])"};
  AttentionText biased;
  biased.steps = {"A[b,h,i,j] = S[b,h,i,j] - 0.5 * (h + 1) * abs(i - j)"};
  for (const Algorithm& algorithm :
       {causal_attention(), top_left_causal_attention(), attention_where("j + 5 >= i and j <= i"),
        attention_where("j % 2 == 0"), attention(capped), attention(biased)}) {
    const Case c = gaussian_case(extents, 51, algorithm);
    const auto oracle = oracle_of(c);
    INFO(print_algorithm(algorithm));
    for_each_schedule(c, [&](const HostTensors& out) {
      require_close(out, oracle);
      REQUIRE(*out.at("O").data != *dense.at("O").data);
    });
  }
}

TEST_CASE("S06: a scalar that is no number is refused at the call") {
  ASTATIDE_NEED_CASE_DEVICE();
  Case c = gaussian_case({{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 4}, {"Sk", 4}, {"D", 16}, {"Dv", 16}}, 61);
  for (const double bad : {std::nan(""), static_cast<double>(INFINITY), 1e300}) {
    c.scalars["scale"] = bad;
    REQUIRE_THROWS_AS(run_case(c, "simt/flash2"), UserError);
  }
}

TEST_CASE("S07: every key of a schedule that is turned on or off changes what is compiled") {
  // halide/Halide#5769: a flag was lost and nobody saw it.
  const auto program = [](const std::string& text) {
    const Algorithm algorithm = causal_attention();
    return tile::print(compile(algorithm, parse_schedule(text, "s.yaml"),
                               {*find_target("sm_80"), {{"D", 64}, {"Dv", 64}}, ScalarType::f32}));
  };
  const std::string base = flash2_text(64, 64);
  const std::string plain = program(base);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = base;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    INFO(to);
    CHECK(program(text) != plain);
  };
  changed("i: 64", "i: 32");
  changed("j: 64", "j: 32");
  changed("threads: [8, 8]", "threads: [16, 16]");
  changed("threads: [8, 8]", "threads: [8, 8], descending: [j.o]");
  changed("gpu_blocks: [i.o, h, b]", "gpu_blocks: [h, i.o, b]");
  changed("reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]",
          "reorder: [j.s, b, h, i.o, j.o], gpu_blocks: [i.o, h, b, j.s], rfactor: {j: [j.s, 4]}");
  changed("K: {stage_at: j.o, store_in: shared", "K: {stage_at: j.o, store_in: shared, ring_buffer: 2");
  changed("K: {stage_at: j.o, store_in: shared", "K: {stage_at: j.o, store_in: shared, vectorize: 2");
  changed("P: {compute_at: j.o, store_in: shared", "P: {compute_at: j.o, store_in: shared, align_storage: {j: 33}");
  changed("P: {compute_at: j.o, store_in: shared", "P: {compute_at: j.o, store_in: shared, exp2: {polynomial: 1/4}");
  changed("S: {compute_at: j.o, store_in: register}", "S: {compute_at: j.o, store_in: shared}");
  changed("S: {compute_at: j.o, store_in: register}", "S: {compute_at: j.o, store_in: register, unroll: {d: 4}}");
  changed("rewrite: online\n", "rewrite: online\nbound: {Sk: 100}\n");
}
