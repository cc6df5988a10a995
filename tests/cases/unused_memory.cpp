// Memory that no element sees: slots of a page behind the last position, padding of shorter items, rows behind the
// last item of a ragged batch. Whatever bits it holds, NaN here, no result knows of it. With Q = 0 every visible key
// weighs the same.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The mean of (j + 1) / 256 over the first `count` keys, and the logarithm of their number; 0 and -inf for none.
void check_mean_of_first(const HostTensors& out, const std::function<std::int64_t(const Index& row)>& count,
                         const std::function<double(double)>& tolerance) {
  require_values(
      out.at("O"), [&](const Index& at) { return count(at) == 0 ? 0 : static_cast<double>(count(at) + 1) / 512; },
      tolerance);
  require_values(
      out.at("L"), [&](const Index& at) { return std::log(static_cast<double>(count(at))); }, lse_tolerance);
}

double ramp(std::int64_t key) { return static_cast<double>(key + 1) / 256; }

/// Contexts in pages of 16 slots, in shuffled order. `K` and `V` hold NaN behind the last position and in every page
/// that none has, and the table holds the number of such a page there.
Case paged_case(const std::string& predicate, const std::vector<std::int64_t>& contexts, std::int64_t most,
                ScalarType dtype) {
  Case c;
  c.algorithm = parse_algorithm(
      "algorithm: paged\n"
      "extents: [B, Hq, Hkv, Sq, Sk, D, Pages]\n"
      "scalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [B, Hq, Sq, D], K: [Pages, Hkv, 16, D], V: [Pages, Hkv, 16, D],\n"
      "  page: {dims: [B, Sk/16 + 1], dtype: i32}, length: {dims: [B], dtype: i32}}\n"
      "axes: {j: Sk}\n"
      "define:\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[page[b, j/16], h*Hkv/Hq, j%16, d]) * scale where " +
          predicate +
          "\n"
          "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
          "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[page[b, j/16], h*Hkv/Hq, j%16, e])\n"
          "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\n"
          "outputs: [O, L]\n",
      "paged.yaml");
  const auto items = static_cast<std::int64_t>(contexts.size());
  const std::int64_t pages = 2 * items * (most / 16 + 1) + 3;
  c.extents = {{"B", items}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 1}, {"Sk", most}, {"D", 128}, {"Pages", pages}};
  c.dtype = dtype;
  c.inputs["Q"] = constant(dtype, {items, 8, 1, 128}, 0);
  c.inputs["K"] = constant(dtype, {pages, 2, 16, 128}, kNan);
  c.inputs["V"] = constant(dtype, {pages, 2, 16, 128}, kNan);
  c.inputs["page"] = constant(ScalarType::i32, {items, most / 16 + 1}, 0);
  c.inputs["length"] = filled(ScalarType::i32, {items}, [&](const Index& at) {
    return static_cast<double>(contexts[static_cast<std::size_t>(at[0])]);
  });
  std::int64_t next = 0;
  for (std::int64_t b = 0; b < items; ++b)
    for (std::int64_t j = 0; j < contexts[static_cast<std::size_t>(b)]; ++j) {
      if (j % 16 == 0) {
        // Every second page, from the back.
        runtime::set(c.inputs.at("page"), Index{b, j / 16}, static_cast<double>(pages - 2 - 2 * next));
        ++next;
      }
      const auto page = static_cast<std::int64_t>(runtime::get(c.inputs.at("page"), Index{b, j / 16}));
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t d = 0; d < 128; ++d) {
          runtime::set(c.inputs.at("K"), Index{page, h, j % 16, d}, static_cast<double>((j + d) % 5) - 2);
          runtime::set(c.inputs.at("V"), Index{page, h, j % 16, d}, ramp(j));
        }
    }
  return c;
}

/// Keys and values of items that are shorter than the tensors, with `unused` behind their ends.
Case padded_case(const std::string& predicate, const std::vector<std::int64_t>& lengths, std::int64_t rows,
                 std::int64_t most, double unused) {
  AttentionText text;
  text.inputs = "length: {dims: [B], dtype: i32}";
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] where " + predicate};
  Case c;
  c.algorithm = attention(text);
  const auto items = static_cast<std::int64_t>(lengths.size());
  c.extents = {{"B", items}, {"Hq", 4}, {"Hkv", 2}, {"Sq", rows}, {"Sk", most}, {"D", 128}, {"Dv", 128}};
  c.dtype = ScalarType::f16;
  fill_zero_queries_and_ramp(c);
  c.inputs["length"] = filled(ScalarType::i32, {items}, [&](const Index& at) {
    return static_cast<double>(lengths[static_cast<std::size_t>(at[0])]);
  });
  for (const char* name : {"K", "V"})
    for_each(c.inputs.at(name), [&](const Index& at, double) {
      if (at[2] >= lengths[static_cast<std::size_t>(at[0])]) runtime::set(c.inputs.at(name), at, unused);
    });
  return c;
}

/// A ragged batch: item b has rows[b] rows of Q from first_q[b] on and keys[b] of K and V from first_k[b] on, of
/// tensors that hold all items one behind the other, and NaN in `spare` rows more.
Case ragged_case(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& keys, std::int64_t most_rows,
                 std::int64_t most_keys, std::int64_t spare) {
  Case c;
  c.algorithm = parse_algorithm(
      "algorithm: ragged\n"
      "extents: [B, Hq, Hkv, Tq, Tk, Sq, Sk, D]\n"
      "scalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [Tq, Hq, D], K: [Tk, Hkv, D], V: [Tk, Hkv, D],\n"
      "  first_q: {dims: [B], dtype: i32}, first_k: {dims: [B], dtype: i32},\n"
      "  rows: {dims: [B], dtype: i32}, keys: {dims: [B], dtype: i32}}\n"
      "axes: {h: Hq, i: Sq, j: Sk}\n"
      "define:\n"
      "  - S[b,h,i,j] = sum(d, Q[min(first_q[b] + i, Tq - 1), h, d] * K[min(first_k[b] + j, Tk - 1), h*Hkv/Hq, d])"
      " * scale\n"
      "  - A[b,h,i,j] = S[b,h,i,j] where i < rows[b] and j < keys[b] and j <= i + keys[b] - rows[b]\n"
      "  - P[b,h,i,j] = softmax(j, A[b,h,i,j])\n"
      "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[min(first_k[b] + j, Tk - 1), h*Hkv/Hq, e])\n"
      "  - L[b,h,i] = logsumexp(j, A[b,h,i,j])\n"
      "outputs: [O, L]\n",
      "ragged.yaml");
  const auto items = static_cast<std::int64_t>(rows.size());
  /// Sets how long items are and where they begin; gives how long all are.
  const auto place = [&](const std::vector<std::int64_t>& lengths, const char* length, const char* first) {
    std::int64_t sum = 0;
    c.inputs[length] = constant(ScalarType::i32, {items}, 0);
    c.inputs[first] = constant(ScalarType::i32, {items}, 0);
    for (std::int64_t b = 0; b < items; ++b) {
      const std::int64_t own = lengths[static_cast<std::size_t>(b)];
      runtime::set(c.inputs.at(first), Index{b}, static_cast<double>(sum));
      runtime::set(c.inputs.at(length), Index{b}, static_cast<double>(own));
      sum += own;
    }
    return sum;
  };
  const std::int64_t all_rows = place(rows, "rows", "first_q"), all_keys = place(keys, "keys", "first_k");
  c.extents = {{"B", items},      {"Hq", 9},         {"Hkv", 3}, {"Tq", all_rows + spare}, {"Tk", all_keys + spare},
               {"Sq", most_rows}, {"Sk", most_keys}, {"D", 64}};
  c.dtype = ScalarType::bf16;
  c.inputs["Q"] =
      filled(c.dtype, {all_rows + spare, 9, 64}, [&](const Index& at) { return at[0] < all_rows ? 0 : kNan; });
  c.inputs["K"] = filled(c.dtype, {all_keys + spare, 3, 64},
                         [&](const Index& at) { return at[0] < all_keys ? static_cast<double>(at[0] % 3) : kNan; });
  c.inputs["V"] = constant(c.dtype, {all_keys + spare, 3, 64}, kNan);
  std::int64_t first = 0;
  for (const std::int64_t length : keys) {
    for (std::int64_t j = 0; j < length; ++j)
      for (std::int64_t h = 0; h < 3; ++h)
        for (std::int64_t d = 0; d < 64; ++d) runtime::set(c.inputs.at("V"), Index{first + j, h, d}, ramp(j));
    first += length;
  }
  return c;
}

void check_ragged(const Case& c, const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& keys) {
  for_each_schedule(c, [&](const HostTensors& out) {
    check_mean_of_first(
        out,
        [&](const Index& at) {
          const std::int64_t own = rows[static_cast<std::size_t>(at[0])];
          return at[2] >= own ? 0 : std::max<std::int64_t>(0, keys[static_cast<std::size_t>(at[0])] - own + at[2] + 1);
        },
        units(c.dtype, 1));
  });
}

}  // namespace

TEST_CASE("N16: slots behind the context, and pages of none, never reach a result") {
  // vllm-project/vllm PR 936: stale NaN in unused slots of the last page, times a weight of 0.
  ASTATIDE_NEED_CASE_DEVICE();
  const std::vector<std::int64_t> contexts = {17, 1, 15, 16, 31, 32, 33, 0};
  const auto count = [&](const Index& at) { return contexts[static_cast<std::size_t>(at[0])]; };
  for (const char* predicate : {"j < length[b]", "not (j >= length[b])", "j <= i + length[b] - Sq"})
    for_each_schedule(paged_case(predicate, contexts, 48, ScalarType::f16),
                      [&](const HostTensors& out) { check_mean_of_first(out, count, units(ScalarType::f16, 1)); });
  // More tiles than the longest context has.
  for_each_schedule(paged_case("j < length[b]", contexts, 400, ScalarType::f16),
                    [&](const HostTensors& out) { check_mean_of_first(out, count, units(ScalarType::f16, 1)); });
}

TEST_CASE("N16: the padding of shorter items never reaches a result, whatever it holds") {
  ASTATIDE_NEED_CASE_DEVICE();
  const std::vector<std::int64_t> lengths = {1, 200, 127, 128, 129, 0, 65};
  for (const double unused : {kNan, std::numeric_limits<double>::infinity()}) {
    for_each_schedule(padded_case("j < length[b]", lengths, 3, 200, unused), [&](const HostTensors& out) {
      check_mean_of_first(
          out, [&](const Index& at) { return lengths[static_cast<std::size_t>(at[0])]; }, units(ScalarType::f16, 1));
    });
    for_each_schedule(padded_case("j < length[b] and j <= i + length[b] - Sq", lengths, 130, 200, unused),
                      [&](const HostTensors& out) {
                        check_mean_of_first(
                            out,
                            [&](const Index& at) {
                              const std::int64_t length = lengths[static_cast<std::size_t>(at[0])];
                              return std::max<std::int64_t>(0, at[2] + length - 130 + 1);
                            },
                            units(ScalarType::f16, 1));
                      });
  }
}

TEST_CASE("N16: what a cache holds behind the positions in use never reaches a result") {
  ASTATIDE_NEED_CASE_DEVICE();
  AttentionText text;
  text.extents = "Used";
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] where j <= i + Used - Sq"};
  for (const std::int64_t used : {3, 64, 100, 129}) {
    Case c;
    c.algorithm = attention(text);
    c.extents = {{"B", 1}, {"Hq", 4}, {"Hkv", 2}, {"Sq", 3}, {"Sk", 200}, {"D", 128}, {"Dv", 128}, {"Used", used}};
    c.dtype = ScalarType::f16;
    fill_zero_queries_and_ramp(c);
    for (const char* name : {"K", "V"})
      for_each(c.inputs.at(name), [&](const Index& at, double) {
        if (at[2] >= used) runtime::set(c.inputs.at(name), at, kNan);
      });
    for_each_schedule(c, [&](const HostTensors& out) {
      check_mean_of_first(
          out, [&](const Index& at) { return at[2] + used - 2; }, units(c.dtype, 1));
    });
  }
}

TEST_CASE("N15: items of a ragged batch without rows or keys contribute nothing and break nothing") {
  // Dao-AILab/flash-attention#1537: a shortcut for one row an item reshaped by the batch.
  ASTATIDE_NEED_CASE_DEVICE();
  check_ragged(ragged_case({1, 0, 1}, {3, 0, 5}, 1, 5, 0), {1, 0, 1}, {3, 0, 5});
  check_ragged(ragged_case({0, 2, 0}, {4, 70, 0}, 2, 70, 0), {0, 2, 0}, {4, 70, 0});
}

TEST_CASE("N15: rows behind the last item are never read, and rows of no item are 0") {
  // pytorch/pytorch PR 188933: buffers of 946 rows, 944 used.
  ASTATIDE_NEED_CASE_DEVICE();
  check_ragged(ragged_case({1, 0, 1}, {3, 0, 5}, 1, 5, 2), {1, 0, 1}, {3, 0, 5});
  // Items longer than a tile, and the longest is not the last: places of the last lie behind its end.
  check_ragged(ragged_case({5, 130, 1}, {9, 200, 33}, 130, 200, 2), {5, 130, 1}, {9, 200, 33});
}
