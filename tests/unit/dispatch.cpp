// Which schedule serves a request, and what the others say.
#include "compiler/dispatch.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "api/astatide.h"
#include "compiler/explain.h"
#include "tests/support/run_program.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using Catch::Contains;

namespace {

DispatchRequest request_for(const Algorithm& algorithm, const std::string& target, ScalarType dtype,
                            const std::map<std::string, std::int64_t>& sizes = {}) {
  DispatchRequest out{*find_target(target), dtype, algorithm.sizes};
  for (const auto& [name, value] : sizes) out.sizes[name] = value;
  return out;
}

std::string picked(const std::string& algorithm, const std::string& target, ScalarType dtype,
                   const std::map<std::string, std::int64_t>& sizes = {}) {
  const Algorithm parsed = load_algorithm(algorithm);
  return dispatch(parsed, shipped_candidates(), request_for(parsed, target, dtype, sizes)).name;
}

std::string refusal(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                    const DispatchRequest& request) {
  try {
    return "picked " + dispatch(algorithm, schedules, request).name;
  } catch (const UserError& error) {
    return error.what();
  }
}

NamedSchedule variant(const std::string& name, const Serves& serves, const std::string& of = "simt/flash2") {
  NamedSchedule out{name, load_schedule(of)};
  out.schedule.serves = serves;
  return out;
}

}  // namespace

TEST_CASE("shipped schedules serve dense, decode and split shapes as their ranges say") {
  const auto d = [](std::int64_t width) { return std::map<std::string, std::int64_t>{{"D", width}, {"Dv", width}}; };
  const auto rows = [](std::int64_t queries, std::int64_t keys) {
    return std::map<std::string, std::int64_t>{{"Sq", queries}, {"Sk", keys}, {"D", 128}, {"Dv", 128}};
  };
  for (const char* name : {"attention", "causal_gqa"}) {
    CHECK(picked(name, "sm_90a", ScalarType::bf16, d(64)) == "sm90/flash3_d64");
    CHECK(picked(name, "sm_90a", ScalarType::f16, d(96)) == "sm90/flash3");
    CHECK(picked(name, "sm_90a", ScalarType::bf16, d(128)) == "sm90/flash3");
    CHECK(picked(name, "sm_90a", ScalarType::bf16, d(192)) == "sm90/flash3_d256");
    CHECK(picked(name, "sm_90a", ScalarType::f32, d(64)) == "simt/flash2");
    CHECK(picked(name, "sm_80", ScalarType::bf16, d(64)) == "sm80/flash2_d64");
    CHECK(picked(name, "sm_120", ScalarType::bf16, d(64)) == "sm80/flash2_d64");
    CHECK(picked(name, "cpu", ScalarType::f32, d(64)) == "cpu/flash2");
  }
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, rows(1, 131072)) == "sm90/decode_gqa_teams");
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, rows(1, 8192)) == "sm90/decode_gqa_short");
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, rows(1, 1024)) == "sm80/decode_gqa");
  // The tiles of four teams don't fit: 192 columns.
  auto wide = rows(1, 131072);
  wide["D"] = wide["Dv"] = 192;
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, wide) == "sm90/decode_gqa");
  wide["Hq"] = 6;  // three in a group: TMA copies whole groups, which divide 64
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, wide) == "sm80/decode_gqa");
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, rows(16, 100)) == "sm90/decode");
  CHECK(picked("causal_gqa", "sm_80", ScalarType::bf16, rows(4, 300)) == "sm80/decode");
  CHECK(picked("causal_gqa", "sm_90a", ScalarType::bf16, rows(17, 8192)) == "sm90/flash3");
  CHECK(picked("causal_gqa", "sm_86", ScalarType::f32, rows(1, 8192)) == "simt/decode_gqa");
  CHECK(picked("causal_gqa", "cpu", ScalarType::f32, rows(1, 8192)) == "cpu/decode_gqa");
  // TMA takes rows in pages, a box each; sums are no references that may fall behind.
  CHECK(picked("paged", "sm_90a", ScalarType::bf16, {{"Sq", 100}}) == "sm90/flash3_d64");
  CHECK(picked("variance", "sm_90a", ScalarType::bf16) == "sm90/flash3_plain");
}

TEST_CASE("every example is served on the CPU, and all of one product after the other on GPUs") {
  for (const std::string& name : shipped_algorithms()) {
    INFO(name);
    // A few queries against many keys, through a page table.
    if (name == "paged_decode" || name == "append_decode" || name == "tree_decode") {
      CHECK(picked(name, "cpu", ScalarType::f32) == "cpu/decode_gqa");
      CHECK(picked(name, "sm_80", ScalarType::f32) == "simt/decode_gqa");
      CHECK(picked(name, "sm_90a", ScalarType::bf16) == "sm90/decode_gqa_short");
      continue;
    }
    CHECK(picked(name, "cpu", ScalarType::f32) == "cpu/flash2");
    // Two score tensors at once are over what a block of simt/flash2 holds, and it names no place for further inputs.
    if (name != "differential" && name != "mla_prefill") CHECK(picked(name, "sm_80", ScalarType::f32) == "simt/flash2");
  }
}

TEST_CASE("the lowest rank wins, then the order given; schedules that state nothing are not asked") {
  const Algorithm algorithm = load_algorithm("attention");
  const DispatchRequest request = request_for(algorithm, "sm_80", ScalarType::f32);
  NamedSchedule silent = variant("silent", {});
  silent.schedule.serves.reset();
  const std::vector<NamedSchedule> schedules = {silent, variant("late", {{}, {}, 2}), variant("first", {{}, {}, 1}),
                                                variant("second", {{}, {}, 1}),
                                                variant("wide", {{}, {{"i", 100000}}, 0})};
  std::vector<std::string> order;
  for (const Candidate& candidate : ask_schedules(algorithm, schedules, request)) order.push_back(candidate.name);
  CHECK(order == std::vector<std::string>{"wide", "first", "second", "late"});
  CHECK(dispatch(algorithm, schedules, request).name == "first");
  std::vector<NamedSchedule> own = {variant("own", {{}, {}, 54})};
  own.insert(own.end(), shipped_candidates().begin(), shipped_candidates().end());
  CHECK(dispatch(algorithm, own, request).name == "own");
}

TEST_CASE("where none serves, each says why not, with the number and the range") {
  const Algorithm algorithm = load_algorithm("attention");
  const std::vector<NamedSchedule> schedules = {
      variant("few", {{}, {{"i", 1, 16}}, 1}),      variant("one", {{}, {{"i", 7, 7}}, 2}),
      variant("many", {{}, {{"j", 100000}}, 3}),    variant("other", {{}, {{"q", 1, 2}}, 4}),
      variant("half", {{ScalarType::f16}, {}, 5}),  variant("host", {{}, {}, 6}, "cpu/flash2"),
      variant("hopper", {{}, {}, 7}, "sm90/flash3")};
  const std::string text = refusal(algorithm, schedules, request_for(algorithm, "sm_80", ScalarType::f32));
  CHECK(text == R"(error: no schedule serves attention on sm_80 with inputs of f32
note: few: i is 512, it serves 1 to 16
note: one: i is 512, it serves 7
note: many: j is 512, it serves 100000 and more
note: other: the algorithm has no axis q
note: half: it serves other types than f32
note: host: it is for the CPU
note: hopper: the schedule needs sm_90a, the target is sm_80
note: a schedule that is named is taken whatever it serves)");
  DispatchRequest unknown = request_for(algorithm, "sm_80", ScalarType::f32);
  unknown.sizes.erase("Sq");
  CHECK_THAT(refusal(algorithm, {schedules[0]}, unknown),
             Contains("note: few: nothing says how large Sq is, the length of i"));
}

TEST_CASE("the ranges of a ragged axis are of what bounds its length") {
  const Algorithm algorithm = load_algorithm("ragged");
  DispatchRequest request = request_for(algorithm, "sm_90a", ScalarType::bf16);
  request.sizes["Sq"] = 8;
  CHECK(ask_schedules(algorithm, {variant("few", {{}, {{"i", 1, 8}}, 1})}, request)[0].why_not.empty());
  request.sizes["Sq"] = 9;
  CHECK(ask_schedules(algorithm, {variant("few", {{}, {{"i", 1, 8}}, 1})}, request)[0].why_not ==
        "i is 9, it serves 1 to 8");
}

TEST_CASE("L02: where default tiles are over the budget, one is picked that fits, and it is right") {
  // pytorch/pytorch#180278: 139776 bytes were needed of 101376, and nothing smaller was tried.
  const std::map<std::string, std::int64_t> sizes{{"Sq", 2048}, {"Sk", 2048}, {"D", 192}, {"Dv", 128}};
  const Algorithm algorithm = load_algorithm("attention");
  REQUIRE(find_target("sm_86")->shared_memory_per_block == 101376);
  const DispatchRequest request = request_for(algorithm, "sm_86", ScalarType::bf16, sizes);
  bool over_budget = false;
  for (const Candidate& candidate : ask_schedules(algorithm, shipped_candidates(), request))
    over_budget = over_budget || candidate.why_not.find("of shared memory, sm_86 has 101376") != std::string::npos;
  CHECK(over_budget);
  const NamedSchedule chosen = dispatch(algorithm, shipped_candidates(), request);
  INFO(chosen.name);
  for (const auto& kernel :
       explain(algorithm, chosen.schedule, {request.target, request.sizes, request.dtype}).statistics.kernels)
    CHECK(kernel.shared_bytes <= request.target.shared_memory_per_block);
  const testing::TemporaryFolder folder;
  const testing::ProgramResult run = testing::run_astatide(
      {"run", "attention", "--schedule", chosen.name, "--shape", "B=1,Hq=1,Hkv=1,Sq=130,Sk=150,D=192,Dv=128", "--dtype",
       "bf16", "--device", "cpu", "--check", "--repeat", "1"},
      {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(run.out << run.err);
  CHECK(run.code == 0);
}
