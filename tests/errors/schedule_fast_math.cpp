// What a schedule may approximate.
#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Matchers::Contains;

namespace {

std::string said(const std::string& algorithm, const std::string& schedule) {
  return outcome_of_compile(example_algorithm(algorithm), parse_schedule(schedule, "s.yaml"), ScalarType::f32);
}

std::string fast(const std::string& schedule, const std::string& target) {
  return with(shipped_schedule(schedule), "target: " + target + "\n", "target: " + target + "\nfast_math: true\n");
}

}  // namespace

TEST_CASE("fast_math is refused where nothing would be approximated") {
  CHECK(said("softcap_alibi", fast("simt/flash2", "sm_80")) == "accepted");
  const std::string without = said("causal_gqa", fast("simt/flash2", "sm_80"));
  CHECK_THAT(without,
             Contains("s.yaml:3:12: error: fast_math: causal_gqa has no function that sm_80 approximates, so it would "
                      "have no effect") &&
                 Contains("note: approximated are: tanh") && Contains("note: leave it out"));
  CHECK_THAT(said("sigmoid_attention", fast("simt/flash2", "sm_80")), Contains("approximated are: tanh"));
  CHECK_THAT(said("softcap_alibi", fast("cpu/flash2", "cpu")),
             Contains("fast_math: cpu computes every function as exactly as f32 holds it, so it would have no effect"));
}

TEST_CASE("fast_math is true or not there") {
  CHECK_THAT(
      parse_refusal("target: sm_80\nfast_math: false\n"),
      Contains("s.yaml:2:12: error: fast_math: false would have no effect") && Contains("note: leave the key out"));
  CHECK_THAT(parse_refusal("target: sm_80\nfast_math: 2\n"), Contains("s.yaml:2:12: error: fast_math: '2'"));
  CHECK_THAT(parse_refusal("target: sm_80\nO: {fast_math: true}\n"), Contains("fast_math"));
}
