#include <catch2/catch.hpp>

#include "compiler/schedule/schedule.h"
#include "tests/support/schedule_cases.h"

// What a schedule says of whom it serves, said wrongly.

namespace astatide {
namespace {

using Catch::Matchers::Contains;

std::string serves(const std::string& what) {
  return testing::parse_refusal("serves: " + what + "\nK: {stage_at: j.o}\n");
}

TEST_CASE("serves takes types, lengths and a rank, and nothing else") {
  CHECK(serves("{dtype: [f16], lengths: {i: [0, 16], j: [1, inf], d: 64}, rank: 3}") == "no error");
  CHECK(serves("{rank: 0}") == "no error");
  CHECK(
      serves("{lengths: {i: [1, 16, 32]}}") ==
      R"(s.yaml:1:23: error: i: a list, wanted is a length or the least and the most, such as 128, [1, 16] or [1024, inf]
    serves: {lengths: {i: [1, 16, 32]}}
                          ^)");
  CHECK_THAT(serves("{}"), Contains("wanted is a map of dtype, lengths and rank, such as {dtype: [f16, bf16], "));
  CHECK_THAT(serves("[f16]"), Contains("wanted is a map of dtype, lengths and rank"));
  CHECK_THAT(serves("{ranks: 3}"), Contains("unknown key 'ranks' of serves") && Contains("did you mean rank?"));
  CHECK_THAT(serves("{rank: first}"), Contains("rank: 'first', wanted is an integer"));
  CHECK_THAT(serves("{dtype: f16}"), Contains("wanted is a list of types, such as [f16, bf16]"));
  CHECK_THAT(serves("{dtype: []}"), Contains("wanted is a list of types, such as [f16, bf16]"));
  CHECK_THAT(serves("{dtype: [fp16]}"), Contains("dtype: 'fp16' is no type") && Contains("did you mean f16?"));
  CHECK_THAT(serves("{lengths: {}}"), Contains("wanted is a map of axes to ranges"));
  CHECK_THAT(serves("{lengths: {i: many}}"), Contains("i: 'many', wanted is a length or the least and the most"));
  CHECK_THAT(serves("{lengths: {i: [inf, 3]}}"), Contains("wanted is a length or the least and the most"));
}

TEST_CASE("serves refuses ranges without a length, numbers out of range, and what is given twice") {
  CHECK_THAT(serves("{lengths: {i: [17, 16]}}"), Contains("the lengths of i are 17 to 16, no length is among them"));
  CHECK_THAT(serves("{lengths: {i: -1}}"), Contains("a length of i is -1, allowed are 0 to 1099511627776 and inf"));
  CHECK_THAT(serves("{lengths: {i: [0, 2199023255552]}}"), Contains("a length of i is 2199023255552, allowed are"));
  CHECK_THAT(serves("{rank: 1001}"), Contains("the rank is 1001, allowed are 0 to 1000"));
  CHECK_THAT(serves("{rank: -1}"), Contains("the rank is -1, allowed are 0 to 1000"));
  CHECK_THAT(serves("{dtype: [f16, f16]}"), Contains("the type f16 is given twice"));
  CHECK_THAT(serves("{dtype: [i32]}"), Contains("i32 is no type to compute with"));
  CHECK_THAT(serves("{lengths: {'i;': 1}}"), Contains("serves: 'i;'") || Contains("serves: i; "));
  const Schedule twice = ScheduleBuilder("sm_80").serves({{}, {{"i", 1, 2}, {"i", 3, 4}}, 0}).build();
  CHECK_THAT(testing::parse_refusal(print_schedule(twice)), Contains("'i' is given twice"));
}

}  // namespace
}  // namespace astatide
