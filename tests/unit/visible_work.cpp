// What masks let through, counted to the element, against loops over all of it.
#include "compiler/visible.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;
using Sizes = std::map<std::string, std::int64_t>;

namespace {

constexpr std::int64_t kB = 2, kH = 4, kD = 3, kDv = 5;

Sizes sizes_of(std::int64_t queries, std::int64_t keys, const Sizes& more = {}) {
  Sizes out{{"B", kB}, {"Hq", kH}, {"Hkv", 2}, {"Sq", queries}, {"Sk", keys}, {"D", kD}, {"Dv", kDv}};
  out.insert(more.begin(), more.end());
  return out;
}

/// Operations of attention at every place that is seen.
template <class Sees>
double counted(std::int64_t queries, std::int64_t keys, const Sees& sees) {
  double out = 0;
  for (std::int64_t b = 0; b < kB; ++b)
    for (std::int64_t h = 0; h < kH; ++h)
      for (std::int64_t i = 0; i < queries; ++i)
        for (std::int64_t j = 0; j < keys; ++j) out += sees(b, h, i, j) ? 2.0 * (kD + kDv) : 0;
  return out;
}

double visible_in(const Algorithm& algorithm, const Sizes& sizes,
                  const std::map<std::string, DoubleTensor>& inputs = {}) {
  const VisibleWork work = visible_work(algorithm, sizes, [&](const std::string& name) -> const DoubleTensor* {
    const auto found = inputs.find(name);
    return found == inputs.end() ? nullptr : &found->second;
  });
  INFO(work.why_not);
  REQUIRE(work.visible.has_value());
  CHECK(*work.visible <= work.all);
  return *work.visible;
}

/// Attention whose scores count where a predicate holds.
Algorithm masked(const std::string& predicate) {
  return parse_algorithm(R"(
algorithm: masked
extents: [B, Hq, Hkv, Sq, Sk, D, Dv]
inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, Dv]}
define:
  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d])
  - A[b,h,i,j] = S[b,h,i,j] where )" +
                             predicate + R"(
  - P[b,h,i,j] = softmax(j, A[b,h,i,j])
  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])
outputs: [O]
)",
                         "masked.yaml");
}

DoubleTensor tensor_of(std::vector<std::int64_t> shape, const std::function<double(std::int64_t)>& value) {
  DoubleTensor out{std::move(shape), {}};
  std::int64_t count = 1;
  for (const std::int64_t length : out.shape) count *= length;
  for (std::int64_t n = 0; n < count; ++n) out.values.push_back(value(n));
  return out;
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kShapes{{1, 1}, {1, 70}, {37, 70}, {70, 37}, {64, 64}, {0, 9}};

}  // namespace

TEST_CASE("visible: shipped masks, on ragged, tiny and empty shapes") {
  for (const auto& [q, k] : kShapes) {
    INFO(q << " queries, " << k << " keys");
    const std::int64_t queries = q, keys = k, offset = k - q;
    CHECK(visible_in(load_algorithm("attention"), sizes_of(queries, keys)) ==
          counted(queries, keys, [](auto, auto, auto, auto) { return true; }));
    const double causal = counted(queries, keys, [&](auto, auto, auto i, auto j) { return j <= i + offset; });
    for (const char* name : {"causal_gqa", "sink", "clipped"})
      CHECK(visible_in(load_algorithm(name), sizes_of(queries, keys)) == causal);
    // Two scores.
    CHECK(visible_in(load_algorithm("differential"),
                     {{"B", kB}, {"H", kH}, {"Sq", q}, {"Sk", k}, {"D", kD}, {"Dv", kDv}}) == 2 * causal);
    CHECK(
        visible_in(load_algorithm("sliding_window"), sizes_of(queries, keys, {{"Left", 5}, {"Right", 3}})) ==
        counted(queries, keys, [&](auto, auto, auto i, auto j) { return j + 5 >= i + offset && j <= i + offset + 3; }));
    CHECK(visible_in(load_algorithm("prefix_lm"), sizes_of(queries, keys, {{"Prefix", 11}})) ==
          counted(queries, keys, [&](auto, auto, auto i, auto j) { return j < 11 || j <= i + offset; }));
    CHECK(visible_in(load_algorithm("dilated"), sizes_of(queries, keys, {{"Step", 3}})) ==
          counted(queries, keys,
                  [&](auto, auto, auto i, auto j) { return j <= i + offset && (i + offset - j) % 3 == 0; }));
  }
}

TEST_CASE("visible: predicates of every form, by ranges and one by one") {
  struct Case {
    const char* text;
    std::function<bool(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j)> sees;
  };
  const std::vector<Case> cases{
      {"j == i", [](auto, auto, auto i, auto j) { return j == i; }},
      {"not (j == i)", [](auto, auto, auto i, auto j) { return j != i; }},
      {"2*j <= 3*i - 4", [](auto, auto, auto i, auto j) { return 2 * j <= 3 * i - 4; }},
      {"3*j > 40 - 2*i", [](auto, auto, auto i, auto j) { return 3 * j > 40 - 2 * i; }},
      {"not (j < 5 or j > i) and h != 2", [](auto, auto h, auto i, auto j) { return j >= 5 && j <= i && h != 2; }},
      {"j <= i and j < 20 * (b + 1) - 3 * h",
       [](auto b, auto h, auto i, auto j) { return j <= i && j < 20 * (b + 1) - 3 * h; }},
      {"j < 9 or j > 20 and j < 31 or j == 25 or j > 60",
       [](auto, auto, auto, auto j) { return j < 9 || (j > 20 && j < 31) || j > 60; }},
      {"j % 4 == 1 or j > i", [](auto, auto, auto i, auto j) { return j % 4 == 1 || j > i; }},
      {"j % 5 == 3 and j >= 7", [](auto, auto, auto, auto j) { return j % 5 == 3 && j >= 7; }},
      {"i < 30", [](auto, auto, auto i, auto) { return i < 30; }},
      {"h < 1 and b == 1", [](auto b, auto h, auto, auto) { return h < 1 && b == 1; }},
      {"j * i < 300", [](auto, auto, auto i, auto j) { return j * i < 300; }},
      {"j <= i * 0.5 - 0.25",
       [](auto, auto, auto i, auto j) { return static_cast<double>(j) <= static_cast<double>(i) * 0.5 - 0.25; }},
      {"max(i, j) < 33", [](auto, auto, auto i, auto j) { return std::max(i, j) < 33; }},
  };
  for (const Case& one : cases)
    for (const auto& [q, k] : kShapes) {
      INFO(one.text << ", " << q << " queries, " << k << " keys");
      CHECK(visible_in(masked(one.text), sizes_of(q, k)) == counted(q, k, one.sees));
    }
}

TEST_CASE("visible: masks that data make, with the data, and why not without") {
  const std::int64_t queries = 40, keys = 150;
  const Sizes sizes = sizes_of(queries, keys);
  const auto random = [](std::int64_t n) { return static_cast<double>((n * 2654435761U >> 7U) & 1U); };
  const DoubleTensor mask = tensor_of({kB, queries, keys}, random);
  CHECK(visible_in(load_algorithm("dense_mask"), sizes, {{"visible", mask}}) ==
        counted(queries, keys, [&](auto b, auto, auto i, auto j) {
          return mask.values[static_cast<std::size_t>((b * queries + i) * keys + j)] != 0;
        }));
  // Blocks at the edges are not whole.
  const DoubleTensor blocks = tensor_of({kH, queries / 64 + 1, keys / 64 + 1}, random);
  CHECK(visible_in(load_algorithm("block_mask"), sizes, {{"sees", blocks}}) ==
        counted(queries, keys, [&](auto, auto h, auto i, auto j) {
          return blocks.values[static_cast<std::size_t>((h + i / 64) * 3 + j / 64)] != 0;
        }));
  const DoubleTensor lengths = tensor_of({kB}, [](std::int64_t n) { return n == 0 ? 150 : 17; });
  CHECK(visible_in(load_algorithm("padded"), sizes, {{"length", lengths}}) ==
        counted(queries, keys, [&](auto b, auto, auto i, auto j) {
          const auto length = static_cast<std::int64_t>(lengths.values[static_cast<std::size_t>(b)]);
          return j < length && j <= i + length - queries;
        }));
  const DoubleTensor doc_q = tensor_of({kB, queries}, [](std::int64_t n) { return n % 40 / 9 + n / 40; });
  const DoubleTensor doc_k = tensor_of({kB, keys}, [](std::int64_t n) { return n % 150 / 31 + n / 150; });
  CHECK(visible_in(load_algorithm("document_mask"), sizes, {{"doc_q", doc_q}, {"doc_k", doc_k}}) ==
        counted(queries, keys, [&](auto b, auto, auto i, auto j) {
          return doc_q.values[static_cast<std::size_t>(b * queries + i)] ==
                 doc_k.values[static_cast<std::size_t>(b * keys + j)];
        }));
  // The place in `sees` lies inside it where the other side of the `or` does not hold.
  const std::int64_t guesses = 8;
  const DoubleTensor tree = tensor_of({kB, guesses, guesses}, random);
  const DoubleTensor filled = tensor_of({kB}, [](std::int64_t n) { return n == 0 ? 150 : 29; });
  CHECK(visible_in(load_algorithm("tree_decode"), sizes_of(guesses, keys, {{"Pages", 20}}),
                   {{"sees", tree}, {"length", filled}}) == counted(guesses, keys, [&](auto b, auto, auto i, auto j) {
          const auto length = static_cast<std::int64_t>(filled.values[static_cast<std::size_t>(b)]);
          if (j >= length) return false;
          if (j < length - guesses) return true;
          const std::int64_t at = (b * guesses + i) * guesses + std::max<std::int64_t>(j - length + guesses, 0);
          return tree.values[static_cast<std::size_t>(at)] != 0;
        }));

  const VisibleWork unknown = visible_work(load_algorithm("document_mask"), sizes);
  CHECK_FALSE(unknown.visible.has_value());
  CHECK(unknown.why_not == "its masks depend on what is in doc_k");
  CHECK(unknown.all == counted(queries, keys, [](auto, auto, auto, auto) { return true; }));
  CHECK(inputs_of_masks(load_algorithm("tree_decode")) == std::vector<std::string>{"length", "sees"});
  CHECK(inputs_of_masks(load_algorithm("causal_gqa")).empty());
}

TEST_CASE("visible: long masks take no time, and those that would take long are not counted") {
  // 2 * 2^37 places, of which rows are looked at.
  const Sizes sizes = {{"B", 4},      {"Hq", 32}, {"Hkv", 8},  {"Sq", 16384},
                       {"Sk", 16384}, {"D", 128}, {"Dv", 128}, {"Step", 2}};
  const double pairs = 16384.0 * 16385 / 2;
  CHECK(visible_in(load_algorithm("causal_gqa"), sizes) == 4.0 * 32 * pairs * 4 * 128);
  CHECK(visible_in(load_algorithm("dilated"), sizes) == 4.0 * 32 * (pairs + 8192) / 2 * 4 * 128);
  const VisibleWork long_one = visible_work(masked("j * i < 300"), sizes);
  CHECK_FALSE(long_one.visible.has_value());
  CHECK_THAT(long_one.why_not, Contains("268435456 places and more, 67108864 are looked at"));
}

TEST_CASE("visible: a score that is read at other places than its own counts everywhere, a softmax for its whole row") {
  const Algorithm algorithm = parse_algorithm(R"(
algorithm: shifted
extents: [B, N, M, D]
inputs: {Q: [B, N, D], K: [B, M, D], V: [B, M, D]}
define:
  - S[b,i,j] = sum(d, Q[b,i,d] * K[b,j,d])
  - A[b,i,j] = S[b,i,j] where j < 8
  - P[b,i,j] = softmax(j, A[b,i,j])
  - W[b,i,j] = P[b,i,j] where j < 3
  - O[b,i,d] = sum(j, W[b,i,j] * V[b,j,d])
outputs: [O]
)",
                                              "shifted.yaml");
  std::map<std::string, std::int64_t> sizes{{"B", 2}, {"N", 5}, {"M", 20}, {"D", 4}};
  // S over 8 keys, which the sum of the softmax is of; O over 3.
  CHECK(visible_in(algorithm, sizes) == 2.0 * 2 * 5 * 4 * (8 + 3));
}

TEST_CASE("explain, run and bench say how much is visible, beside what tiles compute") {
  const TemporaryFolder folder;
  const std::string shape = "B=1,Hq=2,Hkv=2,Sq=100,Sk=100,D=16,Dv=16";
  const double visible = 2.0 * 2 * (100 * 101 / 2) * 2 * 16;
  const auto json_of = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--shape", shape, "--json"});
    const ProgramResult result = run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
    INFO(result.out << result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto explained = json_of({"explain", "causal_gqa", "--schedule", "cpu/flash2"}).at("products");
  CHECK(explained.at("visible") == visible);
  CHECK(explained.at("all") == 2.0 * 2 * 100 * 100 * 2 * 16);
  CHECK(explained.at("computed") > visible);
  CHECK_THAT(run_astatide({"explain", "causal_gqa", "--schedule", "cpu/flash2", "--shape", shape}).out,
             Contains("operations in the tiles that are computed, ") && Contains(" visible ("));
  CHECK_THAT(run_astatide({"explain", "document_mask", "--schedule", "cpu/flash2", "--shape", shape}).out,
             Contains("how many are visible is not known: its masks depend on what is in doc_k"));
  const auto run = json_of({"run", "causal_gqa", "--schedule", "cpu/flash2", "--device", "cpu", "--repeat", "1"});
  CHECK(run.at("flops") == visible);
  CHECK(run.at("flops_of") == "visible");
  CHECK(run.at("tflops").get<double>() == Approx(visible / run.at("time_ms").at("median").get<double>() / 1e9));
  // Booleans are random there, and the same in the process that measures.
  const auto masked_run =
      json_of({"run", "dense_mask", "--schedule", "cpu/flash2", "--device", "cpu", "--repeat", "1"});
  const auto benched =
      json_of({"bench", "dense_mask", "--schedules", "cpu/flash2", "--device", "cpu", "--repeat", "1"});
  CHECK(benched.at("shapes")[0].at("flops") == masked_run.at("flops"));
  CHECK(benched.at("shapes")[0].at("flops_of") == "visible");
  CHECK(masked_run.at("flops") < 0.6 * explained.at("all").get<double>());
}
