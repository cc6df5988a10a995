#include "compiler/explain.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "tests/support/paths.h"
#include "tests/support/run_program.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Explanation explain_named(const std::string& algorithm, const std::string& schedule,
                          const std::map<std::string, std::int64_t>& sizes, const std::string& target = "") {
  const Schedule value = load_schedule(schedule);
  return explain(load_algorithm(algorithm), value,
                 {*find_target(target.empty() ? value.target : target), sizes, ScalarType::f32});
}

const std::map<std::string, std::int64_t> kLong = {{"B", 1},     {"Hq", 32}, {"Hkv", 32}, {"Sq", 8192},
                                                   {"Sk", 8192}, {"D", 128}, {"Dv", 128}};
constexpr double kGiB = 1024.0 * 1024 * 1024;

double scratch_of(const Explanation& e, const std::string& name) {
  for (const tile::TensorSize& tensor : e.statistics.tensors)
    if (tensor.role == tile::Tensor::Role::scratch && tensor.name.starts_with(name)) return tensor.bytes;
  return 0;
}

}  // namespace

TEST_CASE("explain: the standard schedule puts 8 GiB of S into global memory, flash2 none") {
  const Explanation standard = explain_named("attention", "simt/standard", kLong);
  CHECK(scratch_of(standard, "S") == 8 * kGiB);
  CHECK(standard.kernels.size() == 3);
  const Explanation flash2 = explain_named("attention", "simt/flash2", kLong, "sm_90a");
  CHECK(scratch_of(flash2, "S") == 0);
  CHECK(flash2.statistics.scratch_bytes() == 0);
  CHECK(flash2.kernels.size() == 1);
}

TEST_CASE("explain: products of attention are 4 B H Sq Sk D operations, and a causal mask saves nearly half") {
  const double products = 4.0 * 32 * 8192 * 8192 * 128;
  const Explanation dense = explain_named("attention", "simt/flash2", kLong, "sm_90a");
  CHECK(dense.kernels.at(0).statistics.product_flops == products);
  CHECK(dense.skipped == 0.0);
  const Explanation causal = explain_named("causal_gqa", "simt/flash2", kLong, "sm_90a");
  REQUIRE(causal.skipped);
  CHECK(*causal.skipped > 0.47);
  CHECK(*causal.skipped < 0.5);
  CHECK(causal.kernels.at(0).statistics.product_flops == Approx(products * (1 - *causal.skipped)));
}

TEST_CASE("explain: the ranges of tiles that loops run over, and the searches in them") {
  const Explanation causal = explain_named("causal_gqa", "simt/flash2", kLong, "sm_90a");
  REQUIRE(causal.kernels.at(0).ranges.size() == 1);
  CHECK(causal.kernels.at(0).ranges[0] == "j_o_end = max(0, min((Sk+63)/64, (Sk+i_o*128-Sq+191)/64))");
  const Explanation documents = explain_named("document_mask", "simt/flash2", kLong, "sm_90a");
  REQUIRE(documents.kernels.at(0).ranges.size() == 2);
  CHECK(documents.kernels.at(0).ranges[0].find("count_below(doc_k[b,0], Sk, ") != std::string::npos);
}

TEST_CASE("explain: parts of an axis, and what the kernel that merges them reads and writes") {
  std::map<std::string, std::int64_t> sizes = kLong;
  sizes["Sq"] = 1;
  const Explanation e = explain_named("attention", "simt/decode", sizes, "sm_90a");
  REQUIRE(e.parts);
  CHECK(e.parts->axis == "j");
  CHECK(e.parts->parts == 32);
  CHECK(e.parts->tiles == 128);
  CHECK(e.parts->tiles_each == 4);
  REQUIRE(e.kernels.size() == 2);
  const auto& merge = e.kernels[1].statistics.global;
  // 32 heads, 32 parts, f32.
  CHECK(merge.at("O_acc_parts").read == 32.0 * 32 * 128 * 4);
  CHECK(merge.at("l_parts").read == 32.0 * 32 * 4);
  CHECK(merge.at("m_parts").read == 2 * 32.0 * 32 * 4);
  CHECK(merge.at("O").written == 32.0 * 128 * 4);
  CHECK(e.statistics.scratch_bytes() == 32.0 * 32 * (128 + 2) * 4);
  CHECK(!explain_named("attention", "simt/flash2", kLong, "sm_90a").parts);
}

TEST_CASE("explain: the tree of a reduction is that of the kernel, the length and the parts, not of the batch") {
  std::map<std::string, std::int64_t> sizes = kLong;
  sizes["Sq"] = 1;
  const auto tree = [&](const std::string& how, std::int64_t batch, std::int64_t keys) {
    sizes["B"] = batch, sizes["Sk"] = keys;
    std::string text = text_of(source_path("schedules/simt/decode.yaml"));
    text.replace(text.find("32]}"), 4, how + "]}, merge: last_block");
    const Explanation e = explain(load_algorithm("attention"), parse_schedule(text, "decode.yaml"),
                                  {*find_target("sm_90a"), sizes, ScalarType::f32});
    REQUIRE(e.parts);
    return std::pair(e.parts->parts, e.tree.hash);
  };
  CHECK(tree("{split_size: 1024}", 1, 8192).first == 8);
  CHECK(tree("{split_size: 1024}", 1, 8193).first == 9);
  CHECK(tree("{split_size: 1024}", 1, 0).first == 1);
  CHECK(tree("{split_size: 1024}", 1, 8192) == tree("{split_size: 1024}", 7, 8192));
  CHECK(tree("{split_size: 1024}", 1, 8192).second != tree("{split_size: 2048}", 1, 8192).second);
  CHECK(tree("{split_size: 1024}", 1, 8192).second != tree("{split_size: 1024}", 1, 8191).second);
  // 132 multiprocessors with as many blocks as fit, 32 heads: whole parts in one wave, fewer for more items.
  const auto [few, many] = std::pair(tree("auto", 1, 8192), tree("auto", 2, 8192));
  CHECK(few.first >= 132 / 32);
  CHECK(many.first == few.first / 2);
  CHECK(few.second != many.second);
  CHECK(tree("auto", 1000, 8192).first == 1);
}

TEST_CASE("explain: blocks per multiprocessor follow from what a block takes") {
  const Explanation e = explain_named("attention", "simt/flash2", kLong, "sm_90a");
  const KernelUse& kernel = e.kernels.at(0);
  const Target& target = e.target;
  REQUIRE(kernel.blocks_per_sm >= 1);
  CHECK(kernel.blocks_per_sm * kernel.statistics.shared_bytes <= target.shared_memory_per_sm);
  CHECK(kernel.blocks_per_sm * kernel.threads <= target.threads_per_sm);
  CHECK(kernel.blocks_per_sm * kernel.threads * kernel.registers <= target.registers_per_sm);
  std::int64_t shared = 0;
  for (const BufferUse& buffer : kernel.buffers)
    if (buffer.space == Space::shared && buffer.alias.empty()) shared += buffer.bytes;
  CHECK(shared <= kernel.statistics.shared_bytes);
  CHECK(kernel.statistics.shared_bytes <= target.shared_memory_per_block);
}

TEST_CASE("explain: a kernel that moves more than it computes is bound by memory") {
  const Explanation e = explain_named("attention", "simt/standard", kLong, "sm_90a");
  REQUIRE(e.peak);
  CHECK(e.kernels.at(0).roofline->binds() == "arithmetic");
  CHECK(e.kernels.at(1).roofline->binds() == "memory");
  CHECK(e.kernels.at(1).roofline->least() >= 16 * kGiB / e.peak->bytes);
  CHECK_FALSE(explain_named("attention", "cpu/flash2", kLong).peak);
}

TEST_CASE("explain: a lagging reference leaves V a bound, and says what becomes of a bound that breaks") {
  const Algorithm algorithm = load_algorithm("attention");
  Schedule schedule = load_schedule("simt/flash2");
  const CompileOptions options{*find_target("sm_90a"), kLong, ScalarType::f32};
  CHECK_FALSE(explain(algorithm, schedule, options).rescale);
  schedule.rescale = {RescaleMode::lazy, 20, std::nullopt};
  const auto lazy = explain(algorithm, schedule, options).rescale;
  REQUIRE(lazy);
  CHECK(lazy->grow == 20);
  CHECK(lazy->largest.at("V") == std::ldexp(1.0, 128 - 20 - 13));  // 8192 keys
  schedule.rescale = {RescaleMode::optimistic, std::nullopt, std::nullopt};
  const auto optimistic = explain(algorithm, schedule, options).rescale;
  REQUIRE(optimistic);
  CHECK(optimistic->over == 60);
  CHECK(optimistic->largest.at("V") == std::ldexp(1.0, 128 - 60 - 13));
}

TEST_CASE("explain: tensor cores pad a head size, and each tile says by how much") {
  const auto paddings = [](const std::string& schedule, std::int64_t d, std::int64_t dv) {
    const std::map<std::string, std::int64_t> sizes = {{"B", 1},    {"Hq", 2}, {"Hkv", 1}, {"Sq", 200},
                                                       {"Sk", 300}, {"D", d},  {"Dv", dv}};
    const Schedule value = load_schedule(schedule);
    const Explanation e =
        explain(load_algorithm("causal_gqa"), value, {*find_target(value.target), sizes, ScalarType::bf16});
    std::map<std::string, Padding> out;
    for (const BufferUse& buffer : e.kernels.at(0).buffers)
      if (buffer.padding) out[buffer.name] = *buffer.padding;
    return out;
  };
  // One instruction sums 16 columns of d, and makes 8 of e.
  const auto rows = paddings("sm80/flash2", 72, 36);
  CHECK(rows.size() == 5);  // Q_s, K_s, V_s, O_acc, O_tile
  for (const char* name : {"Q_s", "K_s"}) {
    CHECK(rows.at(name).axis == "d");
    CHECK(rows.at(name).used == 72);
    CHECK(rows.at(name).computed == 80);
    CHECK(rows.at(name).wasted_work() == Approx(0.1));
  }
  CHECK(rows.at("O_acc").axis == "e");
  CHECK(rows.at("O_acc").used == 36);
  CHECK(rows.at("O_acc").computed == 40);
  CHECK(rows.at("V_s").computed == 40);
  // Panels have 64 columns.
  const auto panels = paddings("sm90/flash3", 72, 40);
  CHECK(panels.size() == 3);
  CHECK(panels.at("K_s").computed == 80);
  CHECK(panels.at("K_s").held == 128);
  CHECK(panels.at("K_s").wasted_bytes() == Approx(0.4375));
  CHECK(panels.at("V_s").computed == 40);
  CHECK(panels.at("V_s").wasted_work() == 0);
  CHECK(panels.at("V_s").held == 64);
  CHECK(paddings("sm90/flash3", 128, 64).empty());
  CHECK(paddings("sm80/flash2", 96, 40).empty());
}

TEST_CASE("explain says what is padded, as text and as JSON") {
  std::vector<std::string> words = {"explain", "attention", "--schedule", "sm90/flash3",
                                    "--dtype", "bf16",      "--shape",    "Sq=200,Sk=300,D=72,Dv=40"};
  const ProgramResult text = run_astatide(words);
  INFO(text.err);
  CHECK_THAT(text.out,
             Catch::Contains("shared memory, d padded from 72 to 80: 10.0 % of its products wasted; 128 columns "
                             "held: 43.8 % of its bytes\n") &&
                 Catch::Contains("shared memory, e padded from 40: 64 columns held: 37.5 % of its bytes\n"));
  words.emplace_back("--json");
  const nlohmann::json out = nlohmann::json::parse(run_astatide(words).out);
  int padded = 0;
  for (const nlohmann::json& buffer : out.at("kernels").at(0).at("buffers")) {
    if (buffer.at("name") != "K_s") {
      CHECK(buffer.contains("padding") == (buffer.at("name") == "Q_s" || buffer.at("name") == "V_s"));
      continue;
    }
    ++padded;
    CHECK(buffer.at("padding") == nlohmann::json({{"axis", "d"},
                                                  {"used", 72},
                                                  {"computed", 80},
                                                  {"held", 128},
                                                  {"wasted_work", 1 - 72.0 / 80},
                                                  {"wasted_bytes", 1 - 72.0 / 128}}));
  }
  CHECK(padded == 1);
}

TEST_CASE("explain says the same as text and as JSON") {
  const std::vector<std::string> words = {"explain",    "attention",
                                          "--schedule", "simt/standard",
                                          "--shape",    "B=1,Hq=32,Hkv=32,Sq=8192,Sk=8192,D=128,Dv=128"};
  const ProgramResult text = run_astatide(words);
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("S_root") && Catch::Contains("8 GiB") && Catch::Contains("roofline"));
  std::vector<std::string> more = words;
  more.emplace_back("--json");
  const ProgramResult object = run_astatide(more);
  CHECK(object.code == 0);
  const nlohmann::json out = nlohmann::json::parse(object.out);
  CHECK(out.at("ok") == true);
  CHECK(out.at("scratch").at("S_root") == 8 * kGiB);
  CHECK(out.at("kernels").size() == 3);
  CHECK(out.at("flops") > 1e12);
}

TEST_CASE("explain: a prediction stands beside the machine's roofline, for a machine that is not there") {
  const std::vector<std::string> words{
      "explain", "causal_gqa", "--schedule", "sm90/flash3",
      "--dtype", "bf16",       "--shape",    "B=4,Hq=16,Hkv=16,Sq=4096,Sk=4096,D=128,Dv=128"};
  const ProgramResult text = run_astatide(words);
  INFO(text.out << text.err);
  REQUIRE(text.code == 0);
  for (const char* line : {"machine H200 SXM: ", "ridge ", "predicted ", " binds", "operations a byte", "waves"})
    CHECK(text.out.find(line) != std::string::npos);
  std::vector<std::string> json_words = words;
  json_words.insert(json_words.end(), {"--json", "--target", "sm_90a"});
  const nlohmann::json json = nlohmann::json::parse(run_astatide(json_words).out)["predicted"];
  CHECK(json["ridge"].get<double>() > 100);
  REQUIRE(json["kernels"].size() == 1);
  CHECK(json["kernels"][0]["ms"].get<double>() == json["ms"].get<double>());
  CHECK(json["kernels"][0]["binds"] == "tensor cores");
  CHECK(json["kernels"][0]["memory"]["O"]["written"].get<double>() == 4.0 * 16 * 4096 * 128 * 2);
  CHECK_FALSE(json.contains("measured"));
}

TEST_CASE("explain: what is measured is the GPU that is there, and no other") {
  const ProgramResult both = run_astatide({"explain", "causal_gqa", "--measure", "--target", "sm_90a"});
  CHECK(both.code == 2);
  CHECK(both.err.find("--target: error: --measure is of the GPU that is there") != std::string::npos);
  for (const char* word : {"--measure", "--counters"}) {
    const ProgramResult none =
        run_astatide({"explain", "causal_gqa", word}, {{"ASTATIDE_LIBCUDA", "/nowhere/libcuda.so"}});
    INFO(none.err);
    CHECK(none.code == 3);
    CHECK(none.err.find("no CUDA driver") != std::string::npos);
  }
}
