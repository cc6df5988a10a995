// Extents that a schedule compiles in, and kernels that may start early.
#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Matchers::Contains;

namespace {

std::string outcome_with(const std::string& schedule, const std::string& line) {
  const std::string text = shipped_schedule(schedule);
  const std::size_t end = text.find('\n', text.find("target: ")) + 1;
  return outcome_of_compile(example_algorithm("causal_gqa"),
                            parse_schedule(text.substr(0, end) + line + "\n" + text.substr(end), "s.yaml"),
                            ScalarType::bf16);
}

}  // namespace

TEST_CASE("known names extents of the algorithm, each once") {
  CHECK(outcome_with("sm80/flash2", "known: [Hq, Hkv]") == "accepted");
  CHECK_THAT(outcome_with("sm80/flash2", "known: [Hqq]"), Contains("error: known: there is no extent Hqq") &&
                                                              Contains("note: extents are B, Hq, Hkv") &&
                                                              Contains("did you mean Hq?"));
  CHECK_THAT(parse_refusal("target: sm_80\nknown: Hq\n"),
             Contains("s.yaml:2:8: error: known") && Contains("wanted is a list of extents, such as [Hq, Hkv]"));
  CHECK_THAT(parse_refusal("target: sm_80\nknown: []\n"), Contains("s.yaml:2:8: error: known"));
  CHECK_THAT(parse_refusal("target: sm_80\nknown: [Hq, Hq]\n"), Contains("Hq") && Contains("known"));
  CHECK_THAT(outcome_with("sm80/flash2", "known: [Sk]\nbound: {Sk: 1024}"),
             Contains("bound: Sk is compiled in by known, a bound would have no effect"));
}

TEST_CASE("what is known has to be given, and no other value runs") {
  const Schedule schedule = parse_schedule(
      with(shipped_schedule("sm80/flash2"), "target: sm_80\n", "target: sm_80\nknown: [Hq, Hkv]\n"), "s.yaml");
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.dtype = ScalarType::bf16;
  options.sizes = {{"D", 64}, {"Dv", 64}, {"Hq", 8}};
  const Algorithm algorithm = example_algorithm("causal_gqa");
  REQUIRE_THROWS_WITH(
      compile(algorithm, schedule, options),
      Contains("known: the value of Hkv is compiled in, and none is given") && Contains("note: --shape Hkv=8"));
  options.sizes["Hkv"] = 2;
  const auto known = compile(algorithm, schedule, options).known;
  CHECK(known == std::map<std::string, std::int64_t>{{"D", 64}, {"Dv", 64}, {"Hq", 8}, {"Hkv", 2}});
  CHECK(known_extents(algorithm, schedule, options.sizes) == known);
}

TEST_CASE("dependent_launch asks for a target that has it") {
  CHECK(outcome_with("sm90/flash3_plain", "dependent_launch: true") == "accepted");
  CHECK_THAT(outcome_with("sm80/flash2", "dependent_launch: true"),
             Contains("error: dependent_launch: sm_80 starts no kernel before the one in front has ended") &&
                 Contains("target: sm_90a"));
  CHECK_THAT(parse_refusal("target: sm_90a\ndependent_launch: false\n"),
             Contains("s.yaml:2:19: error: dependent_launch: false would have no effect"));
}
