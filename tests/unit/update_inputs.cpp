// Updates of inputs as values: text and builder, their meaning, the check of what a launch leaves, and the kernels.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "api/c_dlpack.h"
#include "api/check_outputs.h"
#include "api/dlpack.h"
#include "api/random_tensors.h"
#include "compiler/algorithm/build.h"
#include "compiler/cuda/emit.h"
#include "compiler/explain.h"
#include "tests/support/case_data.h"
#include "tests/support/messages.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

const std::string kShifted =
    "algorithm: shifted\nextents: [B, S, D]\n"
    "inputs: {X: [B, S, D], Y: [B, D], at: {dims: [B], dtype: i32}}\n"
    "updates:\n  - X[b, at[b], d] = Y[b,d]*2 where at[b] >= 0\n"
    "define:\n  - M[b,d] = max(s, X[b,s,d])\noutputs: [M]\n";

Arguments shifted_arguments(const std::vector<double>& at) {
  return {{{"B", 2}, {"S", 2}, {"D", 1}},
          {},
          {{"X", {{2, 2, 1}, {1, 2, 3, 4}}}, {"Y", {{2, 1}, {5, 6}}}, {"at", {{2}, at}}}};
}

}  // namespace

TEST_CASE("updates from the builder are those of the file, and print as they were read") {
  const Algorithm file = example_algorithm("append_decode");
  AlgorithmBuilder builder("append_decode");
  builder.extents({"B", "Hq", "Hkv", "Sq", "Sk", "D", "Dv", "Pages"}).scalar("scale", 1 / sqrt(variable("D")));
  builder.input("Q", {"B", "Hq", "Sq", "D"}).input("K", {"Pages", "Hkv", "64", "D"});
  builder.input("V", {"Pages", "Hkv", "64", "Dv"}).input("Kn", {"B", "Hkv", "Sq", "D"});
  builder.input("Vn", {"B", "Hkv", "Sq", "Dv"}).input("page", {"B", "Sk/64 + 1"}, ScalarType::i32);
  builder.input("length", {"B"}, ScalarType::i32);
  const Expr b = variable("b"), hk = variable("hk"), i = variable("i"), d = variable("d");
  const Expr position = read("length", {b}) - variable("Sq") + i;
  builder.axis("j", less_equal(read("length", {b}), variable("Sk")));
  // As a formula, and as a line.
  builder.update("K", {read("page", {b, floor_div(position, 64)}), hk, mod(position, 64), d}, read("Kn", {b, hk, i, d}),
                 call(Op::ge, {position, 0}));
  builder.update(
      "V[page[b, (length[b] - Sq + i)/64], hk, (length[b] - Sq + i)%64, e] = Vn[b,hk,i,e] where length[b] - Sq + i >= "
      "0");
  for (const Func& func : file.define) builder.define(func.name, func.indices, func.value, func.where_predicate);
  for (const auto& [extent, size] : file.sizes) builder.size(extent, size);
  const Algorithm built = builder.outputs({"O", "L"}).build();
  CHECK(equal(built, file));
  CHECK(file.updates.front().indices == std::vector<std::string>{"b", "i", "hk", "d"});
  CHECK(equal(parse_algorithm(print_algorithm(file), "printed.yaml"), file));
  CHECK(print_mathematics(parse_algorithm(kShifted, "s.yaml")) ==
        "X[b, at[b], d] <- Y[b,d] * 2  where at[b] >= 0\nM[b,d] = max_s X[b,s,d]\n");
}

TEST_CASE("definitions read what updates have stored, and nothing else has changed") {
  const Algorithm algorithm = parse_algorithm(kShifted, "s.yaml");
  const auto results = evaluate(algorithm, shifted_arguments({1, -7}));
  CHECK(results.at("X").values == std::vector<double>{1, 10, 3, 4});
  CHECK(results.at("M").values == std::vector<double>{10, 4});
  CHECK_THROWS_WITH(evaluate(algorithm, shifted_arguments({2, 0})),
                    Catch::Matchers::Contains("X is stored at index 2.0 of dimension 2, whose length is 2"));
}

TEST_CASE("the check finds an element that an update did not store, or stored beside its place") {
  const Algorithm algorithm = parse_algorithm(kShifted, "s.yaml");
  const auto tensor = [](ScalarType type, const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
    runtime::HostTensor out = runtime::zeros(type, shape);
    std::size_t n = 0;
    runtime::for_each_element(out, [&](std::byte* at) { runtime::store_element(type, at, values[n++]); });
    return out;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const HostTensors inputs{{"X", tensor(ScalarType::f32, {2, 2, 1}, {1, 2, nan, 4})},
                           {"Y", tensor(ScalarType::f32, {2, 1}, {5, 6})},
                           {"at", tensor(ScalarType::i32, {2}, {1, -1})}};
  const auto check = [&](const std::vector<double>& values) {
    return check_outputs(algorithm, {{"B", 2}, {"S", 2}, {"D", 1}}, {}, inputs,
                         {{"X", tensor(ScalarType::f32, {2, 2, 1}, values)}})
        .front();
  };
  CHECK(check({1, 10, nan, 4}).ok());
  CHECK_FALSE(check({1, 2, nan, 4}).ok());
  CHECK(check({std::nextafter(1.0F, 2.0F), 10, nan, 4}).changed == 1);
  CHECK_FALSE(check({std::nextafter(1.0F, 2.0F), 10, nan, 4}).ok());
  CHECK(prepare_updated(algorithm, inputs).size() == 1);
}

TEST_CASE("each update is a kernel in front of the schedule's, which explain counts") {
  const Algorithm algorithm = example_algorithm("append_decode");
  const CompileOptions options{*find_target("sm_90a"), algorithm.sizes, ScalarType::bf16};
  const Schedule schedule = parse_schedule(shipped_schedule("sm80/decode"), "s.yaml");
  const tile::Program program = compile(algorithm, schedule, options);
  const std::string text = tile::print(program);
  CHECK(contains(text, "input   K: bf16[Pages, Hkv, 64, D] updated"));
  CHECK(program.kernels[0].name == "append_decode_update_K");
  CHECK(program.kernels[1].name == "append_decode_update_V");
  CHECK(contains(text,
                 "  if length[b] - Sq + i >= 0 uniform block\n    copy K_new <- Kn[b,hk,i,d] at hk = hk_o, d = "
                 "d_o*64 via load\n"));
  // The schedule's kernels are as they would be without updates.
  Algorithm plain = algorithm;
  plain.updates.clear();
  std::erase_if(plain.inputs, [](const Input& input) { return input.name == "Kn" || input.name == "Vn"; });
  const tile::Program without = compile(plain, schedule, options);
  REQUIRE(program.kernels.size() == without.kernels.size() + 2);
  for (std::size_t n = 0; n < without.kernels.size(); ++n) CHECK(program.kernels[n + 2] == without.kernels[n]);
  const Explanation use = explain(algorithm, schedule, options);
  REQUIRE(use.kernels.size() == program.kernels.size());
  // Elements of 16 bits: 4 items, 2 heads, 64 columns.
  CHECK(use.statistics.kernels[0].global.at("K").written == Approx(4 * 2 * 64 * 2));
  CHECK(use.statistics.kernels[0].global.at("Kn").read == Approx(4 * 2 * 64 * 2));
}

TEST_CASE("a kernel does not store into an input that another has read, or that it reads") {
  const Algorithm algorithm = example_algorithm("append_decode");
  const CompileOptions options{*find_target("sm_90a"), algorithm.sizes, ScalarType::bf16};
  tile::Program program = compile(algorithm, parse_schedule(shipped_schedule("simt/flash2"), "s.yaml"), options);
  std::swap(program.kernels[0], program.kernels[1]);
  CHECK_NOTHROW(tile::verify(program, "plan_memory"));
  std::rotate(program.kernels.begin(), program.kernels.begin() + 1, program.kernels.end());
  CHECK_THROWS_WITH(tile::verify(program, "plan_memory"),
                    Catch::Matchers::Contains("is updated behind a kernel that reads it"));
  for (tile::Tensor& tensor : program.tensors) tensor.updated = false;
  CHECK_THROWS_WITH(tile::verify(program, "plan_memory"),
                    Catch::Matchers::Contains("input K is written") || Catch::Matchers::Contains("input V is written"));
}

TEST_CASE("memory that DLPack calls read-only is not updated") {
  std::int64_t shape[1] = {2};
  float data[2] = {};
  DLManagedTensorVersioned managed{{DLPACK_MAJOR_VERSION, 0},
                                   nullptr,
                                   nullptr,
                                   DLPACK_FLAG_BITMASK_READ_ONLY,
                                   {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0}};
  const AstatideTensor named{"K", nullptr, &managed};
  Diagnostics errors;
  views_of(
      {&named, 1}, Device::cpu(), [](const std::string&) { return "updated"; }, errors);
  REQUIRE(errors.size() == 1);
  CHECK(errors.problems().front().message == "K is updated, and its memory is read-only");
  Diagnostics none;
  views_of(
      {&named, 1}, Device::cpu(), [](const std::string&) -> const char* { return nullptr; }, none);
  CHECK(none.empty());
}

}  // namespace astatide::testing
