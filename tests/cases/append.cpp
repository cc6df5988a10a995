// Inputs that are updated before they are read: what is stored comes back in later reads of the same launch, no other
// element changes a bit, and a second launch changes nothing. Compared with the evaluator, under every schedule.
#include <catch2/catch.hpp>
#include <limits>

#include "api/check_outputs.h"
#include "tests/support/case_run.h"
#include "tests/support/paged_case.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

void check_results(const Case& c, const HostTensors& outputs) {
  for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, c.scalars, c.inputs, outputs)) {
    INFO(check.name << ": " << check.max_abs_error << ", at most " << check.limit << ", " << check.wrong_nonfinite
                    << " elements not finite, " << check.changed << " changed");
    CHECK(check.ok());
  }
}

/// A new key and value for each of the last positions of items; pages hold NaN where no item has a position.
Case decode_case(ScalarType type, const std::vector<std::int64_t>& lengths, std::int64_t queries, std::int64_t most) {
  const auto items = static_cast<std::int64_t>(lengths.size());
  Case c;
  c.algorithm = load_algorithm("append_decode");
  c.dtype = type;
  c.extents = {{"B", items}, {"Hq", 4}, {"Hkv", 2}, {"Sq", queries}, {"Sk", most}, {"D", 64}, {"Dv", 64}};
  c.inputs["Q"] = gaussian(type, {items, 4, queries, 64}, 1);
  c.inputs["Kn"] = gaussian(type, {items, 2, queries, 64}, 4);
  c.inputs["Vn"] = gaussian(type, {items, 2, queries, 64}, 5);
  fill_pages(c, lengths, 64, most / 64 + 1);
  return c;
}

/// Two updates of one cache without pages: rows from `begin` on, as many as `fresh` says, and then what `first` names.
Case cache_case(const std::string& extra_condition) {
  Case c;
  c.algorithm = parse_algorithm(
      "algorithm: cache\n"
      "extents: [B, Hq, Hkv, Sq, Sk, D, R]\n"
      "scalars: {scale: 1/sqrt(D), gain: 0.5}\n"
      "inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, D], Kn: [B, Sq, Hkv, D], turn: [R, D],\n"
      "  fresh: {dims: [B], dtype: i32}, begin: {dims: [B], dtype: i32}, first: {dims: [B, 2], dtype: i32}}\n"
      "axes: {n: \"fresh[b] <= Sq\"}\n"
      "updates:\n"
      "  - K[b, g, begin[b] + n, d] = Kn[b,n,g,d]*gain + select(d < R, turn[min(n, R - 1), d], tanh(Kn[b,n,g,d]))" +
          extra_condition +
          "\n"
          "  - V[b, g, first[b,t], d] = K[b, g, t + 0, d] where first[b,t] != 1\n"
          "define:\n"
          "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale\n"
          "  - P[b,h,i,j] = softmax(j, S[b,h,i,j])\n"
          "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])\n"
          "outputs: [O]\n",
      "cache.yaml");
  c.extents = {{"B", 3}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 5}, {"Sk", 70}, {"D", 40}, {"R", 3}};
  c.inputs["Q"] = gaussian(c.dtype, {3, 2, 5, 40}, 1);
  c.inputs["K"] = gaussian(c.dtype, {3, 2, 70, 40}, 2);
  c.inputs["V"] = gaussian(c.dtype, {3, 2, 70, 40}, 3);
  c.inputs["Kn"] = gaussian(c.dtype, {3, 5, 2, 40}, 4);
  c.inputs["turn"] = gaussian(c.dtype, {3, 40}, 5);
  const auto integers = [](const Index& shape, const std::vector<double>& values) {
    return filled(ScalarType::i32, shape, [&](const Index& at) {
      std::int64_t n = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + at[d];
      return values[static_cast<std::size_t>(n)];
    });
  };
  c.inputs["fresh"] = integers({3}, {5, 0, 3});
  c.inputs["begin"] = integers({3}, {65, -9, 0});
  c.inputs["first"] = integers({3, 2}, {69, 0, 1, 1, 33, 2});
  return c;
}

}  // namespace

TEST_CASE("append: items of any length have their last positions stored in pages, and see them") {
  ASTATIDE_NEED_CASE_DEVICE();
  std::size_t turn = 0;
  for (const std::int64_t queries : {1, 3})
    for (const ScalarType type : {ScalarType::bf16, ScalarType::f32}) {
      INFO(queries << " queries, " << name_of(type));
      const Case c = decode_case(type, {0, 1, 2, 64, 66, 130}, queries, 140);
      for_schedules_in_turn(c, turn++, [&](const HostTensors& outputs) { check_results(c, outputs); });
    }
}

TEST_CASE("append: expressions, ragged axes, conditions and an update that reads what one above it has stored") {
  ASTATIDE_NEED_CASE_DEVICE();
  std::size_t turn = 1;
  // Along a row, at some elements of it, and along no axis by itself.
  for (const char* condition : {"", " where d != 7", " where d + n != 7 and (g == 1 or n > 0)"}) {
    INFO(condition);
    const Case c = cache_case(condition);
    for_schedules_in_turn(c, turn++, [&](const HostTensors& outputs) { check_results(c, outputs); });
  }
}

TEST_CASE("append: a second launch on what the first has left gives the same bits") {
  ASTATIDE_NEED_CASE_DEVICE();
  Case c = cache_case("");
  const std::string schedule = case_device().kind == Device::Kind::cpu ? "cpu/flash2" : "simt/flash2";
  const HostTensors once = run_case(c, schedule);
  for (const char* name : {"K", "V"}) c.inputs[name] = once.at(name);
  for (const auto& [name, tensor] : run_case(c, schedule)) require_same_bits(tensor, once.at(name));
}

TEST_CASE("append: strides of an updated input are any, and what lies between its elements stays") {
  ASTATIDE_NEED_CASE_DEVICE();
  Case c = decode_case(ScalarType::bf16, {3, 70}, 2, 100);
  const Index& shape = c.inputs.at("K").shape;
  c.inputs["K"] = with_strides(c.inputs.at("K"), {1, shape[0], 2 * shape[0] + 3, 64 * (2 * shape[0] + 3)});
  const std::vector<std::byte> before = *c.inputs.at("K").data;
  for_schedules_in_turn(c, 0, [&](const HostTensors& outputs) {
    check_results(c, outputs);
    CHECK(*c.inputs.at("K").data == before);
  });
}

TEST_CASE("append: an updated input has memory of its own for every element") {
  ASTATIDE_NEED_CASE_DEVICE();
  Case c = decode_case(ScalarType::f32, {3, 70}, 2, 100);
  c.inputs.at("K").strides[0] = 0;
  CHECK_THROWS_WITH(run_case(c, case_device().kind == Device::Kind::cpu ? "cpu/flash2" : "simt/flash2"),
                    Catch::Matchers::Contains("K is updated and has stride 0 over the 5 elements of dimension 1"));
}
