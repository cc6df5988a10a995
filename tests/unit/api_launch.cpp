// Launches and builds refuse what is wrong before memory is touched, and count what they did.
#include "api/astatide.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "api/check_outputs.h"
#include "compiler/support/half.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Contains;

#if ASTATIDE_WITH_CPU

namespace {

struct Buffers {
  std::vector<float> q = std::vector<float>(2 * 3 * 8, 1), k = std::vector<float>(2 * 5 * 8, 1),
                     v = std::vector<float>(2 * 5 * 8, 2), o = std::vector<float>(2 * 3 * 8, 7),
                     l = std::vector<float>(2 * 3, 7);

  LaunchArguments arguments() {
    LaunchArguments out;
    out.tensors["Q"] = {q.data(), ScalarType::f32, {1, 2, 3, 8}, {48, 24, 8, 1}};
    out.tensors["K"] = {k.data(), ScalarType::f32, {1, 2, 5, 8}, {80, 40, 8, 1}};
    out.tensors["V"] = {v.data(), ScalarType::f32, {1, 2, 5, 8}, {80, 40, 8, 1}};
    out.tensors["O"] = {o.data(), ScalarType::f32, {1, 2, 3, 8}, {48, 24, 8, 1}};
    out.tensors["L"] = {l.data(), ScalarType::f32, {1, 2, 3}, {6, 3, 1}};
    return out;
  }
  bool untouched() const { return o == std::vector<float>(o.size(), 7) && l == std::vector<float>(l.size(), 7); }
};

Executable build(const std::string& schedule = "cpu/flash2") {
  return case_engine().build(attention(), load_schedule(schedule),
                             {Device::cpu(), ScalarType::f32, {{"D", 8}, {"Dv", 8}}, {}});
}

/// What a launch says to arguments that `change` makes wrong; it writes nothing.
std::string refusal(const std::function<void(LaunchArguments&)>& change, const std::string& schedule = "cpu/flash2") {
  Buffers buffers;
  LaunchArguments arguments = buffers.arguments();
  change(arguments);
  std::string message;
  try {
    build(schedule).launch(arguments);
  } catch (const UserError& error) {
    message = error.what();
  }
  CHECK(buffers.untouched());
  return message;
}

}  // namespace

TEST_CASE("a launch writes every output") {
  Buffers buffers;
  build().launch(buffers.arguments());
  for (const float value : buffers.o) CHECK(value == Approx(2));
  for (const float value : buffers.l) CHECK(value == Approx(std::sqrt(8.0) + std::log(5.0)));
}

TEST_CASE("a launch refuses tensors that are missing, unknown or of another type") {
  CHECK_THAT(refusal([](auto& a) { a.tensors.erase("V"); }), Contains("input V[B, Hkv, Sk, Dv] is missing"));
  CHECK_THAT(refusal([](auto& a) { a.tensors.erase("L"); }), Contains("output L[B, Hq, Sq] is missing"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["KK"] = a.tensors["K"]; }),
             Contains("no tensor KK") && Contains("did you mean K?"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["K"].dtype = ScalarType::f16; }),
             Contains("K is f16") && Contains("built for f32"));
}

TEST_CASE("a launch refuses memory that it can't use") {
  CHECK_THAT(refusal([](auto& a) { a.tensors["K"].data = nullptr; }), Contains("K has no memory"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["K"].data = static_cast<char*>(a.tensors["K"].data) + 2; }),
             Contains("address of K is no multiple of 4"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["O"].strides[1] = 0; }), Contains("O is an output and has stride 0"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["Q"].strides.pop_back(); }), Contains("Q has 3 strides and 4 dimensions"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["K"].strides[2] = INT64_MAX / 2; }), Contains("reaches past 2^63 bytes"));
  CHECK_THAT(refusal([](auto& a) { a.tensors["K"].strides[2] = INT64_MIN; }), Contains("reaches past 2^63 bytes"));
}

TEST_CASE("a launch refuses extents that the build does not serve") {
  const auto resize = [](LaunchArguments& a, std::size_t dim, std::int64_t size, std::vector<std::string> names) {
    for (const std::string& name : names) a.tensors[name].shape[dim] = size;
  };
  CHECK_THAT(refusal([&](auto& a) { resize(a, 3, 4, {"Q", "K"}); }), Contains("D is 4") && Contains("built for 8"));
  CHECK_THAT(refusal(
                 [&](auto& a) {
                   resize(a, 2, 5000, {"K", "V"});
                 },
                 "cpu/fused_row"),
             Contains("Sk is 5000") && Contains("bounds it by 4096"));
  CHECK_THAT(refusal([&](auto& a) { resize(a, 2, -1, {"K", "V"}); }), Contains("Sk is -1"));
  CHECK_THAT(refusal([&](auto& a) {
               resize(a, 2, std::int64_t{1} << 31, {"K", "V"});
             }),
             Contains("Sk is 2147483648") && Contains("2147418112"));
  CHECK_THAT(refusal([&](auto& a) { a.extents["Sk"] = 6; }), Contains("Sk is 6 in the request and 5 in K"));
  CHECK_THAT(refusal([&](auto& a) { a.extents["Skk"] = 6; }), Contains("no extent Skk"));
}

namespace {

/// What a launch of three packed items says to their offsets, of queries and keys.
std::string said_to_offsets(const std::vector<double>& queries, const std::vector<double>& keys) {
  Case c;
  c.algorithm = load_algorithm("ragged");
  c.extents = {{"B", 3}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 4}, {"Sk", 6}, {"D", 8}, {"Dv", 8}, {"Tq", 9}, {"Tk", 12}};
  c.inputs = {{"Q", gaussian(ScalarType::f32, {9, 2, 8}, 1)},
              {"K", gaussian(ScalarType::f32, {12, 1, 8}, 2)},
              {"V", gaussian(ScalarType::f32, {12, 1, 8}, 3)}};
  const auto integers = [](const std::vector<double>& values) {
    return filled(ScalarType::i32, {4}, [&](const Index& at) { return values[static_cast<std::size_t>(at[0])]; });
  };
  c.inputs["q_offset"] = integers(queries);
  c.inputs["k_offset"] = integers(keys);
  try {
    run_case(c, "cpu/flash2", Device::cpu());
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a launch refuses lengths and offsets of items that leave a tensor, with the item") {
  CHECK(said_to_offsets({0, 4, 4, 8}, {0, 5, 6, 12}) == "accepted");
  CHECK_THAT(said_to_offsets({0, 4, 4, 8}, {0, 5, 3, 9}),
             Contains("k_offset is monotone, and decreases from 5 to 3 at [2]"));
  CHECK_THAT(said_to_offsets({0, 5, 5, 8}, {0, 5, 6, 12}),
             Contains("axis i is q_offset[b+1]-q_offset[b] = 5 long at b = 0, at most 4"));
  CHECK_THAT(
      said_to_offsets({0, 4, 4, 8}, {0, 5, 7, 13}),
      Contains("S reads K at index k_offset[b]+j, which goes from 7 to 12 at b = 2; dimension 1 has the length 12"));
  CHECK_THAT(
      said_to_offsets({0, 4, 7, 10}, {0, 5, 6, 12}),
      Contains(
          "O is stored in O at index q_offset[b]+i, which goes from 7 to 9 at b = 2; dimension 1 has the length 9"));
  CHECK_THAT(said_to_offsets({-1, 3, 4, 8}, {0, 5, 6, 12}), Contains("which goes from -1 to 2 at b = 0"));
}

TEST_CASE("a launch refuses inputs that are not as monotone as they say") {
  Case c;
  c.algorithm = load_algorithm("document_mask");
  c.extents = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3}, {"Sk", 4}, {"D", 8}, {"Dv", 8}};
  c.inputs = {{"Q", gaussian(ScalarType::f32, {2, 2, 3, 8}, 1)},
              {"K", gaussian(ScalarType::f32, {2, 1, 4, 8}, 2)},
              {"V", gaussian(ScalarType::f32, {2, 1, 4, 8}, 3)},
              {"doc_q", constant(ScalarType::i32, {2, 3}, 1)},
              {"doc_k", filled(ScalarType::i32, {2, 4}, [](const Index& at) { return at[0] * 5.0 + (at[1] == 2); })}};
  CHECK_THROWS_WITH(run_case(c, "cpu/flash2", Device::cpu()),
                    Contains("doc_k is monotone, and decreases from 1 to 0 at [0, 3]"));
}

TEST_CASE("a launch refuses items of an output that lie on each other") {
  AlgorithmBuilder builder("overlap");
  builder.extents({"B", "S", "D", "T"});
  builder.input("K", {"B", "S", "D"})
      .input("first", {"B"}, ScalarType::i32)
      .input("length", {"B"}, ScalarType::i32)
      .axis("i", less_equal(read("length", {variable("b")}), variable("S")));
  builder.define("P[b,i,j] = sum(d, K[b,i,d] * K[b,j,d])");
  builder.define("O[first[b] + i, e] = sum(j, P[b,i,j] * K[b,j,e])");
  Case c;
  c.algorithm = builder.output("O", {"T", "D"}).build();
  c.extents = {{"B", 2}, {"S", 4}, {"D", 8}, {"T", 9}};
  c.inputs["K"] = gaussian(ScalarType::f32, {2, 4, 8}, 1);
  c.inputs["length"] = constant(ScalarType::i32, {2}, 3);
  const Schedule schedule = parse_schedule("target: cpu\nO: {tile: {i: 4, j: 4}, parallel: [i.o, b]}\n", "s.yaml");
  c.inputs["first"] = filled(ScalarType::i32, {2}, [](const Index& at) { return 5 - 3 * static_cast<double>(at[0]); });
  CHECK_NOTHROW(run_case(c, schedule, Device::cpu()));
  c.inputs["first"] = filled(ScalarType::i32, {2}, [](const Index& at) { return 5 - 2 * static_cast<double>(at[0]); });
  CHECK_THROWS_WITH(run_case(c, schedule, Device::cpu()),
                    Contains("O is stored twice at index 5 of dimension 1, by items from 3 to 5 and from 5 to 7"));
}

namespace {

/// Attention whose score has one more term, with an input of 10 elements.
Algorithm with_term(const std::string& term, const std::string& where = "") {
  AttentionText text;
  text.inputs = "bias: [R], at: {dims: [Sk], dtype: i32}";
  text.extents = "R";
  text.steps = {"A[b,h,i,j] = S[b,h,i,j] + " + term + " + 0 * at[j] + 0 * bias[0]" + where};
  return attention(text);
}

/// What a launch of 4 rows and 6 keys says to it; `at` holds 0 .. 5.
std::string said_to(const Algorithm& algorithm) {
  Case c;
  c.algorithm = algorithm;
  c.extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 4}, {"Sk", 6}, {"D", 8}, {"Dv", 8}, {"R", 10}};
  fill_zero_queries_and_ramp(c);
  c.inputs["bias"] = constant(ScalarType::f32, {10}, 0);
  c.inputs["at"] = filled(ScalarType::i32, {6}, [](const Index& index) { return static_cast<double>(index[0]); });
  try {
    run_case(c, "cpu/flash2", Device::cpu());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a launch refuses reads that leave their tensor, and knows those that don't") {
  // Rows are 0 .. 3, keys 0 .. 5, bias has 10 elements.
  CHECK(said_to(with_term("bias[i + j]")).empty());
  CHECK(said_to(with_term("bias[i - j + 5]")).empty());
  CHECK(said_to(with_term("bias[(i + 1) * (j + 1) % R]")).empty());
  CHECK(said_to(with_term("bias[min(3 * j, R - 1)]")).empty());
  CHECK(said_to(with_term("bias[i - j]", " where j <= i")).empty());
  CHECK(said_to(with_term("bias[j - i - 1]", " where j > i and j <= i + 3")).empty());
  CHECK(said_to(with_term("select(j <= i, bias[i - j], 0.0)")).empty());
  CHECK(said_to(with_term("bias[at[j] + 4]")).empty());
  CHECK_THAT(said_to(with_term("bias[i + 2 * j]")),
             Contains("A reads bias at index i+2*j, which goes from 0 to 13; dimension 1 has the length 10"));
  CHECK_THAT(said_to(with_term("bias[i - j]")), Contains("goes from -5 to 3") && Contains("max(i-j, 0)"));
  CHECK_THAT(said_to(with_term("bias[i - j]", " where j <= i + 1")), Contains("goes from -1 to 3"));
  CHECK_THAT(said_to(with_term("bias[at[j] + 5]")), Contains("is 10 at j = 5"));
}

TEST_CASE("a launch refuses scalars that no f32 holds") {
  for (const double bad : {std::nan(""), static_cast<double>(INFINITY), 1e39})
    CHECK_THAT(refusal([&](auto& a) { a.scalars["scale"] = bad; }), Contains("scale"));
  CHECK_THAT(refusal([](auto& a) { a.scalars["scael"] = 1; }), Contains("scael") && Contains("did you mean scale?"));
}

TEST_CASE("a build refuses a GPU's missing driver, other types and unknown extents") {
  const auto refusal_of = [](const BuildOptions& options) {
    try {
      case_engine().build(attention(), load_schedule("cpu/flash2"), options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal_of({Device::cpu(), ScalarType::f64, {{"D", 8}, {"Dv", 8}}, {}}), Contains("f64"));
  CHECK_THAT(refusal_of({Device::cpu(), ScalarType::f32, {{"D", 8}, {"DD", 8}}, {}}), Contains("no extent DD"));
  CHECK_THAT(refusal_of({Device::cpu(), ScalarType::f32, {{"D", -8}, {"Dv", 8}}, {}}), Contains("D is -8"));
  // An extent that no loop tiles must be known.
  CHECK_THAT(refusal_of({Device::cpu(), ScalarType::f32, {{"D", 8}}, {}}), Contains("Dv"));
}

TEST_CASE("a build without a schedule takes the shipped one that serves its sizes, which then runs any length") {
  BuildOptions options{Device::cpu(), ScalarType::f32, {{"Sq", 1}, {"Sk", 4096}, {"D", 8}, {"Dv", 8}}, {}};
  const Executable split = case_engine().build(attention(), options);
  CHECK(split.program().kernels.size() == 2);
  options.sizes["Sq"] = 3;
  options.sizes["Sk"] = 5;
  const Executable whole = case_engine().build(attention(), options);
  CHECK(whole.program().kernels.size() == 1);
  for (const Executable& executable : {split, whole}) {
    Buffers buffers;
    executable.launch(buffers.arguments());
    for (const float value : buffers.o) CHECK(value == Approx(2));
  }
  // A length that nobody knows is in no range: what serves all lengths is left.
  options.sizes.erase("Sk");
  CHECK(case_engine().build(attention(), options).program().kernels.size() == 1);
}

TEST_CASE("scratch memory is known before a launch, and a caller may bring it") {
  const Executable streaming = build("cpu/flash2");
  const Executable standard = build("cpu/standard");
  const std::map<std::string, std::int64_t> extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 3}, {"Sk", 5}};
  CHECK(streaming.workspace_bytes(extents) == 0);
  // S and P, 2 * 3 * 5 floats each, on boundaries of 256 bytes.
  CHECK(standard.workspace_bytes(extents) == 512);
  Buffers own, brought;
  standard.launch(own.arguments());
  alignas(256) static std::byte memory[512];
  LaunchArguments arguments = brought.arguments();
  arguments.workspace = memory;
  standard.launch(arguments);
  CHECK(own.o == brought.o);
  CHECK_THROWS_AS(standard.workspace_bytes({{"B", 1}}), UserError);
  CHECK_THAT(refusal([&](LaunchArguments& a) { a.workspace = memory, a.workspace_bytes = 511; }, "cpu/standard"),
             Contains("the workspace has 511 bytes, 512 are needed"));
  CHECK_THAT(refusal([&](LaunchArguments& a) { a.workspace = memory + 4; }, "cpu/standard"),
             Contains("wanted is a multiple of 256 bytes"));
}

TEST_CASE("an engine counts compilations, hits and launches") {
  Engine engine({.cache_directory = "", .use_disk_cache = false, .threads = 1});
  const BuildOptions options{Device::cpu(), ScalarType::f32, {{"D", 8}, {"Dv", 8}}, {}};
  const Executable first = engine.build(attention(), load_schedule("cpu/standard"), options);
  CHECK(engine.counters().compiles == 1);
  engine.build(attention(), load_schedule("cpu/standard"), options);
  CHECK(engine.counters().compiles == 1);
  CHECK(engine.counters().memory_hits == 1);
  Buffers buffers;
  first.launch(buffers.arguments());
  // Three kernels: S, P and O.
  CHECK(engine.counters().launches == 3);
  CHECK(first.report().target == "cpu");
  CHECK(first.report().compile_ms > 0);
  CHECK(engine.take_warnings().empty());
}

TEST_CASE("an executable outlives its engine") {
  std::optional<Executable> executable;
  {
    Engine engine({.cache_directory = "", .use_disk_cache = false, .threads = 2});
    executable = engine.build(attention(), load_schedule("cpu/flash2"),
                              {Device::cpu(), ScalarType::f32, {{"D", 8}, {"Dv", 8}}, {}});
  }
  Buffers buffers;
  executable->launch(buffers.arguments());
  CHECK(buffers.o.front() == Approx(2));
}

TEST_CASE("a trace hook sees every stage, also of what is in memory") {
  std::vector<std::string> stages;
  BuildOptions options{Device::cpu(), ScalarType::f32, {{"D", 8}, {"Dv", 8}}, {}};
  options.trace = [&](std::string_view stage, const tile::Program&) { stages.emplace_back(stage); };
  build();
  case_engine().build(attention(), load_schedule("cpu/flash2"), options);
  REQUIRE(stages.size() == pass_table().size() + 1);
  CHECK(stages.front() == "lower");
  CHECK(stages.back() == pass_table().back().name);
}

TEST_CASE("check_outputs sees a wrong value, a wrong infinity and a NaN") {
  const Algorithm algorithm = causal_attention();
  Case c;
  c.algorithm = algorithm;
  c.extents = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 4}, {"Sk", 3}, {"D", 8}, {"Dv", 8}};
  fill_gaussian(c, 1);
  const HostTensors right = run_case(c, "cpu/flash2", Device::cpu());
  const auto check = [&](const char* name, const HostTensors& outputs) {
    for (const OutputCheck& one : check_outputs(algorithm, c.extents, {}, c.inputs, outputs))
      if (one.name == name) return one;
    throw InternalError("no such output");
  };
  const auto with = [&](const char* name, const Index& at, double value) {
    HostTensors outputs = right;
    outputs[name] = runtime::dense_copy(right.at(name), ScalarType::f32);
    outputs[name].data = std::make_shared<std::vector<std::byte>>(*outputs[name].data);
    runtime::set(outputs[name], at, value);
    return outputs;
  };
  CHECK(check("O", right).ok());
  CHECK(check("L", right).ok());
  CHECK_FALSE(check("O", with("O", {0, 0, 2, 3}, runtime::get(right.at("O"), Index{0, 0, 2, 3}) + 1e-4)).ok());
  CHECK_FALSE(check("O", with("O", {0, 0, 2, 3}, std::nan(""))).ok());
  CHECK(check("O", with("O", {0, 0, 2, 3}, INFINITY)).wrong_nonfinite == 1);
  // The first row sees no key.
  REQUIRE(runtime::get(right.at("L"), Index{0, 0, 0}) == -INFINITY);
  CHECK(check("L", with("L", {0, 0, 0}, -1e30)).wrong_nonfinite == 1);
  CHECK(check("L", with("L", {0, 0, 1}, -INFINITY)).wrong_nonfinite == 1);
}

#endif

TEST_CASE("check_outputs holds a kernel that rounds f32 to tf32 to the contract of 11 bits, and no other") {
  Case c;
  c.algorithm = causal_attention();
  c.extents = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 40}, {"Sk", 40}, {"D", 16}, {"Dv", 16}};
  fill_gaussian(c, 1);
  Case narrow = c;
  for (auto& [name, tensor] : narrow.inputs)
    tensor = filled(ScalarType::f32, tensor.shape, [&, &tensor = tensor](const Index& at) {
      return round_to_tf32(static_cast<float>(runtime::get(tensor, at)));
    });
  const HostTensors outputs = run_case(narrow, "cpu/flash2", Device::cpu());
  const auto worst = [&](bool tf32) {
    double share = 0;
    for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs, Allowance{tf32, {}}))
      share = std::max(share, check.max_abs_error / check.limit);
    return share;
  };
  CHECK(worst(true) <= 1);
  CHECK(worst(true) > 0.01);
  CHECK(worst(false) > 10);
  Schedule schedule = load_schedule("sm80/flash2_tf32");
  CHECK(allowance_of(schedule, Device::cuda()).tf32);
  CHECK_FALSE(allowance_of(schedule, Device::cpu()).tf32);
  CHECK_FALSE(allowance_of(load_schedule("sm80/flash2"), Device::cuda()).tf32);
}

TEST_CASE("shapes of some tensors give their extents, and disagreement names both") {
  const Algorithm algorithm = attention();
  std::map<std::string, TensorView> tensors;
  tensors["Q"] = {nullptr, ScalarType::f32, {2, 8, 30, 64}, {}};
  tensors["K"] = {nullptr, ScalarType::f32, {2, 2, 50, 64}, {}};
  CHECK(extents_of(algorithm, tensors) ==
        std::map<std::string, std::int64_t>{{"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 30}, {"Sk", 50}, {"D", 64}});
  tensors["V"] = {nullptr, ScalarType::f32, {2, 2, 51, 64}, {}};
  CHECK_THROWS_WITH(extents_of(algorithm, tensors), Contains("Sk is 50 in K and 51 in V"));
  tensors["V"].shape.pop_back();
  CHECK_THROWS_WITH(extents_of(algorithm, tensors), Contains("V has 3 dimensions, V[B, Hkv, Sk, Dv] has 4"));
}

TEST_CASE("dimensions that are expressions over extents must fit them") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: pairs\nextents: [N]\ninputs: {X: [N], Y: [2*N + 1]}\n"
      "define:\n  - Z[n] = X[n] + Y[2*n]\noutputs: [Z]\n",
      "pairs.yaml");
  std::map<std::string, TensorView> tensors;
  tensors["X"] = {nullptr, ScalarType::f32, {5}, {1}};
  tensors["Y"] = {nullptr, ScalarType::f32, {11}, {1}};
  CHECK(extents_of(algorithm, tensors).at("N") == 5);
  tensors["Y"].shape = {10};
  CHECK_THROWS_WITH(extents_of(algorithm, tensors), Contains("dimension 1 of Y is 10") && Contains("is 11"));
}

TEST_CASE("shipped algorithms and schedules load by name, with and without extension") {
  CHECK(equal(load_schedule("simt/flash2"), load_schedule("simt/flash2.yaml")));
  CHECK(load_algorithm("causal_gqa").name == "causal_gqa");
  for (const std::string& name : shipped_algorithms()) CHECK_NOTHROW(load_algorithm(name));
  for (const std::string& name : shipped_schedules()) CHECK_NOTHROW(load_schedule(name));
  CHECK_THROWS_WITH(load_schedule("flash2"), Contains("none of this name is shipped") && Contains("simt/flash2"));
}
