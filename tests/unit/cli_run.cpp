#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/tensor_file.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using nlohmann::json;

namespace {

constexpr const char* kSmall = "B=1,Hq=2,Hkv=2,Sq=20,Sk=30,D=16,Dv=16";

/// Runs on the CPU with a cache of its own.
ProgramResult run_on_cpu(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--device", "cpu"});
  return run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
}

json object_of(const ProgramResult& result) {
  INFO(result.out << result.err);
  REQUIRE_FALSE(result.out.empty());
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("run --json prints one object with what was asked for, and nothing else") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_on_cpu(folder, {"attention", "--schedule", "cpu/flash2", "--shape", kSmall, "--check", "--json"});
  const json out = object_of(result);
  REQUIRE(result.code == 0);
  REQUIRE(result.err.empty());
  CHECK(out.at("ok") == true);
  CHECK(out.at("device") == "cpu");
  CHECK(out.at("schedule") == "cpu/flash2");
  CHECK(out.at("dtype") == "f32");
  CHECK(out.at("shape").at("Sk") == 30);
  CHECK(out.at("seed") == 0);
  CHECK(out.at("compiles") == 1);
  CHECK(out.at("cache") == "none");
  CHECK(out.at("warnings").empty());
  CHECK(out.at("time_ms").at("median") >= out.at("time_ms").at("min"));
  CHECK(out.at("time_ms").at("min") > 0);
  for (const char* name : {"O", "L"}) {
    const json& output = out.at("outputs").at(name);
    CHECK(output.at("max_abs_error") <= output.at("limit"));
    CHECK(output.at("relative_error") >= 0);
    CHECK(output.at("limit") > 0);
  }
  CHECK(out.at("outputs").at("O").at("shape") == json({1, 2, 20, 16}));
}

TEST_CASE("a second process finds what the first compiled") {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"attention", "--schedule", "cpu/flash2", "--shape", kSmall, "--json"};
  REQUIRE(object_of(run_on_cpu(folder, words)).at("cache") == "none");
  const json second = object_of(run_on_cpu(folder, words));
  CHECK(second.at("cache") == "disk");
  CHECK(second.at("compiles") == 0);
  // Other lengths are served by the same code.
  const json longer = object_of(run_on_cpu(
      folder, {"attention", "--schedule", "cpu/flash2", "--shape", "B=3,Hq=4,Hkv=2,Sq=1,Sk=99,D=16,Dv=16", "--json"}));
  CHECK(longer.at("compiles") == 0);
}

TEST_CASE("equal seeds give equal inputs, others others") {
  const TemporaryFolder folder;
  const auto result = [&](const std::string& seed, const char* name) {
    const std::string path = (folder / name).string();
    REQUIRE(run_on_cpu(folder, {"attention", "--shape", kSmall, "--seed", seed, "--output", "O=" + path}).code == 0);
    return read_bytes(path);
  };
  const std::string first = result("7", "a.npy");
  CHECK(first == result("7", "b.npy"));
  CHECK(first != result("8", "c.npy"));
}

TEST_CASE("inputs come from .npy and .safetensors files, outputs go to them") {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const auto tensor = [](std::vector<std::int64_t> shape, double value) {
    runtime::HostTensor out = runtime::zeros(ScalarType::f32, std::move(shape));
    runtime::for_each_element(out, [&](std::byte* at) { runtime::store_element(out.dtype, at, value); });
    return out;
  };
  runtime::write_npy(path("q.npy"), tensor({1, 2, 3, 8}, 0.5));
  runtime::write_safetensors(path("kv.safetensors"),
                             {{{"K", tensor({1, 1, 5, 8}, 0.25)}, {"V", tensor({1, 1, 5, 4}, 3)}}, {}});
  const ProgramResult result =
      run_on_cpu(folder, {"attention", "--input", "Q=" + path("q.npy"), "--input", path("kv.safetensors"), "--output",
                          path("all.safetensors"), "--output", "L=" + path("l.npy"), "--check", "--json"});
  const json out = object_of(result);
  REQUIRE(result.code == 0);
  // The shape is that of the files.
  CHECK(out.at("shape") == json({{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3}, {"Sk", 5}, {"D", 8}, {"Dv", 4}}));
  CHECK_FALSE(out.contains("seed"));
  const runtime::SafetensorsFile all = runtime::read_safetensors(path("all.safetensors"));
  REQUIRE(all.tensors.size() == 2);
  const runtime::HostTensor lse = runtime::read_npy(path("l.npy"));
  CHECK(lse.shape == std::vector<std::int64_t>{1, 2, 3});
  for (const runtime::NamedTensor& named : all.tensors) {
    if (named.name != "O") continue;
    CHECK(named.tensor.shape == std::vector<std::int64_t>{1, 2, 3, 4});
    for (const double value : runtime::to_doubles(named.tensor)) CHECK(value == Approx(3).epsilon(1e-6));
  }
}

TEST_CASE("a --shape that the files contradict is refused, and nothing is written") {
  const TemporaryFolder folder;
  const std::string q = (folder / "q.npy").string();
  const std::string o = (folder / "o.npy").string();
  runtime::write_npy(q, runtime::zeros(ScalarType::f32, {1, 2, 3, 8}));
  const ProgramResult result = run_on_cpu(
      folder, {"attention", "--input", "Q=" + q, "--shape", "Sq=4,Sk=5,Dv=8", "--output", "O=" + o, "--json"});
  CHECK(result.code == 2);
  const json out = object_of(result);
  CHECK(out.at("ok") == false);
  CHECK(out.at("errors").at(0).at("where") == "--shape");
  CHECK(out.at("errors").at(0).at("message") == "Sq is 4, in the files it is 3");
  CHECK_FALSE(std::filesystem::exists(o));
}

TEST_CASE("tensors of a file that no input takes give a warning") {
  const TemporaryFolder folder;
  const std::string file = (folder / "layer.safetensors").string();
  runtime::write_safetensors(
      file,
      {{{"K", runtime::zeros(ScalarType::f16, {1, 1, 5, 8})}, {"bias", runtime::zeros(ScalarType::f16, {5})}}, {}});
  const json out = object_of(
      run_on_cpu(folder, {"attention", "--input", file, "--shape", "B=1,Hq=1,Sq=3,Dv=8", "--check", "--json"}));
  CHECK(out.at("ok") == true);
  // The type is the files' own.
  CHECK(out.at("dtype") == "f16");
  REQUIRE(out.at("warnings").size() == 1);
  CHECK_THAT(out.at("warnings").at(0).get<std::string>(), Catch::Contains("bias"));
}

TEST_CASE("scalars are arguments of a run") {
  const TemporaryFolder folder;
  const auto result = [&](const std::string& scale, const char* name) {
    const std::string path = (folder / name).string();
    const ProgramResult run = run_on_cpu(
        folder, {"attention", "--shape", kSmall, "--scalar", "scale=" + scale, "--output", "L=" + path, "--check"});
    INFO(run.out << run.err);
    REQUIRE(run.code == 0);
    return read_bytes(path);
  };
  CHECK(result("0.25", "a.npy") != result("0.5", "b.npy"));
}

TEST_CASE("run without --json is a short text for people") {
  const TemporaryFolder folder;
  const ProgramResult result = run_on_cpu(folder, {"attention", "--shape", kSmall, "--check"});
  CHECK(result.code == 0);
  using Catch::Contains;
  CHECK_THAT(result.out, Contains("attention with cpu/flash2 on cpu, f32") && Contains("--seed 0") &&
                             Contains(" ms median") && Contains("O ") && Contains(": ok"));
}

TEST_CASE("run --trace prints the program after each pass, on standard error") {
  const TemporaryFolder folder;
  const ProgramResult result = run_on_cpu(folder, {"attention", "--shape", kSmall, "--trace", "--json"});
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Catch::Contains("# after lower") && Catch::Contains("# after plan_memory"));
  CHECK(object_of(result).at("ok") == true);
}

TEST_CASE("a shape in which something is empty runs") {
  const TemporaryFolder folder;
  for (const char* shape : {"B=0,Hq=2,Hkv=2,Sq=20,Sk=30,D=16,Dv=16", "B=1,Hq=2,Hkv=2,Sq=0,Sk=30,D=16,Dv=16",
                            "B=1,Hq=2,Hkv=2,Sq=20,Sk=0,D=16,Dv=16", "B=1,Hq=1,Hkv=1,Sq=1,Sk=1,D=1,Dv=1"}) {
    for (const char* schedule : {"cpu/flash2", "simt/standard", "simt/fused_row", "simt/flash1"}) {
      INFO(shape << " with " << schedule);
      const ProgramResult result =
          run_on_cpu(folder, {"causal_gqa", "--schedule", schedule, "--shape", shape, "--check", "--json"});
      INFO(result.out << result.err);
      CHECK(result.code == 0);
    }
  }
}

TEST_CASE("without --schedule the one that serves the shape runs, and dispatch says why") {
  const TemporaryFolder folder;
  const char* few = "B=1,Hq=4,Hkv=2,Sq=1,Sk=1500,D=16,Dv=16";
  const json small = object_of(run_on_cpu(folder, {"causal_gqa", "--shape", kSmall, "--check", "--json"}));
  CHECK(small.at("schedule") == "cpu/flash2");
  CHECK(small.at("ok") == true);
  const json split = object_of(run_on_cpu(folder, {"causal_gqa", "--shape", few, "--check", "--json"}));
  CHECK(split.at("schedule") == "cpu/decode_gqa");
  CHECK(split.at("ok") == true);

  const ProgramResult text = run_astatide({"dispatch", "causal_gqa", "--shape", few, "--target", "cpu", "--no-store"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::StartsWith("causal_gqa on cpu, f32: cpu/decode_gqa\n"));
  CHECK_THAT(text.out, Catch::Contains("    10  cpu/decode_gqa         picked\n"));
  const json asked = object_of(run_astatide(
      {"dispatch", "causal_gqa", "--shape", few, "--target", "sm_90a", "--dtype", "bf16", "--no-store", "--json"}));
  CHECK(asked.at("schedule") == "sm80/decode_gqa");
  CHECK(asked.at("candidates").at(0).at("why_not") == "it is for the CPU");

  const std::string own = (folder / "own.yaml").string();
  std::ofstream(own) << "target: cpu\nserves: {lengths: {i: [1, 4]}}\nO: {tile: {i: 4, j: 64}, parallel: [i.o, h, b]}\n"
                        "S: {compute_at: j.o, store_in: shared}\nP: {compute_at: j.o, store_in: shared}\n";
  const std::vector<std::string> words = {"dispatch",   "causal_gqa", "--target", "cpu",
                                          "--no-store", "--schedule", own,        "--shape"};
  const auto with_shape = [&](const char* shape) {
    std::vector<std::string> out = words;
    out.emplace_back(shape);
    return run_astatide(out);
  };
  CHECK_THAT(with_shape(few).out, Catch::StartsWith("causal_gqa on cpu, f32: " + own));
  CHECK_THAT(with_shape(kSmall).out, Catch::StartsWith("causal_gqa on cpu, f32: cpu/flash2"));
  std::ofstream(own) << "target: cpu\nO: {tile: {i: 4, j: 64}, parallel: [i.o, h, b]}\n";
  const ProgramResult silent = with_shape(few);
  CHECK(silent.code == 2);
  CHECK_THAT(silent.err, Catch::Contains("the schedule does not state what it serves"));
}

TEST_CASE(
    "run refuses page ids out of range with place and number, those at the ends always, all with --check-indices") {
  const TemporaryFolder folder;
  const auto paged = [&](double page, std::vector<std::string> more) {
    runtime::HostTensor table = runtime::zeros(ScalarType::i32, {1, 4});
    runtime::set(table, std::vector<std::int64_t>{0, 1}, page);
    runtime::HostTensor length = runtime::zeros(ScalarType::i32, {1});
    runtime::set(length, std::vector<std::int64_t>{0}, 40);
    runtime::write_npy((folder / "page.npy").string(), table);
    runtime::write_npy((folder / "length.npy").string(), length);
    std::vector<std::string> words = {"paged",
                                      "--schedule",
                                      "simt/flash2",
                                      "--shape",
                                      "B=1,Hq=1,Hkv=1,Sq=3,Sk=48,D=16,Dv=16,Pages=5",
                                      "--input",
                                      "page=" + (folder / "page.npy").string(),
                                      "--input",
                                      "length=" + (folder / "length.npy").string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_on_cpu(folder, words);
  };
  for (const double page : {5.0, -1.0}) {
    const ProgramResult result = paged(page, {"--check-indices"});
    INFO(result.out << result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    const std::string place =
        "S reads K at index page[b, j/16], which is " + std::to_string(static_cast<int>(page)) + " at b = 0, j = 16";
    CHECK(result.err.find(place) != std::string::npos);
    const json errors = object_of(paged(page, {"--check-indices", "--json"}));
    CHECK(errors.at("ok") == false);
    CHECK(errors.at("errors").at(0).at("message").get<std::string>().find(place) != std::string::npos);
  }
  CHECK(paged(4, {"--check-indices", "--check"}).code == 0);
}
