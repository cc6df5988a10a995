// Items of unequal lengths, packed: what lies between them holds NaN and is neither read nor written, and so does what
// lies behind the end of a page. Compared with the evaluator, under every schedule.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "api/check_outputs.h"
#include "tests/support/case_run.h"
#include "tests/support/paged_case.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr double kNobodys = std::numeric_limits<double>::quiet_NaN();

/// An item's rows in a tensor that holds all of them.
struct Items {
  std::vector<std::int64_t> lengths, first;
  std::int64_t rows = 0;  // of the tensor

  /// One after the other, with `gap` rows of nobody in front of each.
  Items(std::vector<std::int64_t> of, std::int64_t gap) : lengths(std::move(of)) {
    for (const std::int64_t length : lengths) {
      first.push_back(rows + gap);
      rows += gap + length;
    }
    rows += gap;
  }

  bool holds(std::int64_t row) const {
    for (std::size_t b = 0; b < lengths.size(); ++b)
      if (row >= first[b] && row < first[b] + lengths[b]) return true;
    return false;
  }
};

runtime::HostTensor integers(const std::vector<std::int64_t>& values) {
  return filled(ScalarType::i32, {static_cast<std::int64_t>(values.size())},
                [&](const Index& at) { return static_cast<double>(values[static_cast<std::size_t>(at[0])]); });
}

/// Normal numbers in the rows of items, NaN in the others.
runtime::HostTensor packed(ScalarType type, const Items& items, std::int64_t heads, std::int64_t width,
                           std::uint64_t seed) {
  runtime::HostTensor tensor = gaussian(type, {items.rows, heads, width}, seed);
  for_each(tensor, [&](const Index& at, double) {
    if (!items.holds(at[0])) runtime::set(tensor, at, kNobodys);
  });
  return tensor;
}

Case packed_case(const std::string& where, const Items& q, const Items& k, std::int64_t most_rows,
                 std::int64_t most_keys, ScalarType type, std::int64_t width) {
  Case c;
  c.algorithm = parse_algorithm(
      "algorithm: packed\n"
      "extents: [B, Hq, Hkv, Sq, Sk, D, Tq, Tk]\n"
      "scalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [Tq, Hq, D], K: [Tk, Hkv, D], V: [Tk, Hkv, D], rows: {dims: [B], dtype: i32},\n"
      "  keys: {dims: [B], dtype: i32}, first_q: {dims: [B], dtype: i32}, first_k: {dims: [B], dtype: i32}}\n"
      "axes: {b: B, i: \"rows[b] <= Sq\", j: \"keys[b] <= Sk\"}\n"
      "define:\n"
      "  - S[b,h,i,j] = sum(d, Q[first_q[b] + i, h, d] * K[first_k[b] + j, h*Hkv/Hq, d]) * scale" +
          where +
          "\n"
          "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
          "  - O[first_q[b] + i, h, e] = sum(j, P[b,h,i,j] * V[first_k[b] + j, h*Hkv/Hq, e])\n"
          "  - L[h, first_q[b] + i] = logsumexp(j, S[b,h,i,j])\n"
          "outputs: {O: [Tq, Hq, D], L: [Hq, Tq]}\n",
      "packed.yaml");
  c.dtype = type;
  c.extents = {{"B", static_cast<std::int64_t>(q.lengths.size())},
               {"Hq", 2},
               {"Hkv", 1},
               {"Sq", most_rows},
               {"Sk", most_keys},
               {"D", width},
               {"Tq", q.rows},
               {"Tk", k.rows}};
  c.inputs = {{"Q", packed(type, q, 2, width, 1)}, {"K", packed(type, k, 1, width, 2)},
              {"V", packed(type, k, 1, width, 3)}, {"rows", integers(q.lengths)},
              {"keys", integers(k.lengths)},       {"first_q", integers(q.first)},
              {"first_k", integers(k.first)}};
  return c;
}

void check_against_evaluator(const Case& c) {
  // tf32 is what a schedule may round f32 to; its limit is the wider one.
  const OutputOracle oracle(c.algorithm, c.extents, {{"scale", 1 / std::sqrt(c.extents.at("D"))}}, c.inputs,
                            Allowance{c.dtype == ScalarType::f32 && case_device().kind == Device::Kind::cuda, {}});
  for_each_schedule(c, [&](const HostTensors& outputs) {
    for (const OutputCheck& check : oracle.check(outputs)) {
      INFO(check.name << " error " << check.max_abs_error << " of at most " << check.limit);
      CHECK(check.wrong_nonfinite == 0);
      CHECK(check.max_abs_error <= check.limit);
    }
  });
}

}  // namespace

TEST_CASE("packed items of unequal lengths, none among them, touch no row of others") {
  ASTATIDE_NEED_CASE_DEVICE();
  for (const ScalarType type : {ScalarType::f32, ScalarType::bf16})
    for (const std::int64_t gap : {0, 3}) {
      INFO(name_of(type) << ", gaps of " << gap);
      const Items q({5, 0, 130, 1, 37}, gap), k({7, 3, 65, 0, 150}, gap);
      check_against_evaluator(
          packed_case(" where j <= i + keys[b] - rows[b]", q, k, 130, 150, type, gap == 0 ? 64 : 128));
    }
}

TEST_CASE("bounds far above the lengths of packed items change nothing") {
  ASTATIDE_NEED_CASE_DEVICE();
  check_against_evaluator(packed_case("", Items({2, 9}, 0), Items({33, 4}, 1), 300, 500, ScalarType::bf16, 64));
}

TEST_CASE("a batch of packed items that are all empty writes nothing") {
  ASTATIDE_NEED_CASE_DEVICE();
  check_against_evaluator(packed_case("", Items({0, 0}, 1), Items({0, 5}, 1), 4, 9, ScalarType::f32, 64));
}

TEST_CASE("items in pages of 1, 16, 64 and 256 slots end inside them, and unused slots are not read") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::vector<std::int64_t> lengths = {0, 1, 100, 257, 300};
  for (const std::int64_t size : {1, 16, 64, 256}) {
    INFO("pages of " << size);
    PagedItems items{size, lengths, 300, 3};
    if (size == 64) items.dtype = ScalarType::f32;
    check_against_evaluator(paged_case(items));
  }
}

TEST_CASE("guesses of a tree see what they follow from, and all that is before them, in pages of which some are left") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::int64_t guesses = 6;
  for (const char* name : {"paged_decode", "tree_decode"}) {
    INFO(name);
    const bool tree = std::string(name) == "tree_decode";
    Case c;
    c.algorithm = load_algorithm(name);
    c.dtype = ScalarType::bf16;
    const std::vector<std::int64_t> lengths = {0, guesses, 64, 333};
    c.extents = {{"B", 4}, {"Hq", 4}, {"Hkv", 1}, {"Sq", tree ? guesses : 1}, {"Sk", 400}, {"D", 64}, {"Dv", 64}};
    c.inputs["Q"] = gaussian(c.dtype, {4, 4, c.extents.at("Sq"), 64}, 1);
    const std::int64_t size = tree ? 16 : 64;
    fill_pages(c, lengths, size, 400 / size + 1);
    if (tree)
      c.inputs["sees"] = filled(ScalarType::boolean, {4, guesses, guesses}, [](const Index& at) {
        std::int64_t n = at[1];
        while (n > at[2]) n = (n - 1) / 2;  // guess n follows from guess (n - 1) / 2
        return n == at[2] ? 1 : 0;
      });
    check_against_evaluator(c);
  }
}

TEST_CASE("items that are padded in front begin where they end less their length, and nothing before is read") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::vector<std::int64_t> lengths = {0, 1, 100, 129};
  const std::int64_t items = 4, keys = 129;
  Case c;
  c.algorithm = parse_algorithm(
      "algorithm: left\nextents: [B, Hq, Hkv, Sq, Sk, D]\nscalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, D], length: {dims: [B], dtype: i32}}\n"
      "axes: {j: \"length[b] <= Sk\"}\ndefine:\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, Sk - length[b] + j, d]) * scale\n"
      "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
      "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, Sk - length[b] + j, e])\n"
      "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\noutputs: [O, L]\n",
      "left.yaml");
  for (const ScalarType type : {ScalarType::f32, ScalarType::bf16}) {
    c.dtype = type;
    c.extents = {{"B", items}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3}, {"Sk", keys}, {"D", 64}};
    c.inputs["Q"] = gaussian(type, {items, 2, 3, 64}, 1);
    c.inputs["length"] = integers(lengths);
    for (const char* name : {"K", "V"}) {
      runtime::HostTensor tensor = gaussian(type, {items, 1, keys, 64}, name[0] == 'K' ? 2 : 3);
      for_each(tensor, [&](const Index& at, double) {
        if (at[2] < keys - lengths[static_cast<std::size_t>(at[0])]) runtime::set(tensor, at, kNobodys);
      });
      c.inputs[name] = tensor;
    }
    check_against_evaluator(c);
  }
}

TEST_CASE("documents that a search finds, and those of a packed batch, come out as the evaluator says") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::int64_t rows = 150, keys = 270;
  for (const ScalarType type : {ScalarType::f32, ScalarType::bf16}) {
    Case c;
    c.algorithm = load_algorithm("document_mask");
    c.dtype = type;
    c.extents = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", rows}, {"Sk", keys}, {"D", 64}, {"Dv", 64}};
    c.inputs = {{"Q", gaussian(type, {2, 2, rows, 64}, 1)},
                {"K", gaussian(type, {2, 1, keys, 64}, 2)},
                {"V", gaussian(type, {2, 1, keys, 64}, 3)}};
    // Documents of 70 rows and 100 keys; in the second item only the rows of one have keys.
    c.inputs["doc_q"] =
        filled(ScalarType::i32, {2, rows}, [](const Index& at) { return static_cast<double>(at[1] / 70); });
    c.inputs["doc_k"] = filled(ScalarType::i32, {2, keys},
                               [](const Index& at) { return static_cast<double>(at[0] == 0 ? at[1] / 100 : 1); });
    check_against_evaluator(c);
  }
}
