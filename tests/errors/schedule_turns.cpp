#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Turns of consumers, and exponentials by polynomials, where they would do nothing.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kTurns = testing::Turns{"plain", "", 2, 2, false, "1/4", 64}.text();

std::string turns_changed(const std::string& from, const std::string& to) {
  return Request{.schedule = with(kTurns, from, to), .type = ScalarType::bf16}.message();
}

/// simt/flash2 with an exp2 of P.
std::string polynomial(const std::string& part, const std::string& schedule = testing::kFlash2) {
  return with(schedule, "P: {compute_at: j.o, store_in: shared",
              "P: {compute_at: j.o, store_in: shared, exp2: {polynomial: " + part + "}");
}

}  // namespace

TEST_CASE("turns and polynomials are legal, these also without tensor cores") {
  CHECK((Request{.schedule = kTurns, .type = ScalarType::bf16}.message()) == "");
  CHECK(Request{polynomial("1/4")}.message() == "");
  CHECK(Request{polynomial("1")}.message() == "");
  Request sigmoid{polynomial("1/2"), "sigmoid_attention"};
  CHECK_THAT(sigmoid.message(), Contains("exp2 of P"));
}

TEST_CASE("turns of one consumer are refused with the number that it takes") {
  const std::string one = with(kTurns, "consumer: 2, alternate", "consumer: 1, alternate");
  CHECK((Request{.schedule = one, .type = ScalarType::bf16}.message()) ==
        R"(s.yaml:3:8: error: warps: alternate: 1 consumer has no other to take turns with, at least 2 are needed
    warps: {producer: 1, consumer: 1, alternate: true}
           ^
note: consumer: 2
note: leave alternate out
)");
}

TEST_CASE("turns need a producer beside the consumers, and wgmma") {
  CHECK_THAT(turns_changed("producer: 1, ", ""), Contains("warps: one producer is needed"));
  CHECK_THAT(turns_changed("producer: 1, consumer: 2, ", ""),
             Contains("warps: one producer is needed") && Contains("no consumer is named"));
  CHECK_THAT(turns_changed("mma: wgmma", "mma: mma_sync"),
             Contains("warps: consumers compute with wgmma, and the products of O are by mma_sync"));
}

TEST_CASE("alternate is true or not there") {
  CHECK_THAT(turns_changed("alternate: true", "alternate: false"),
             Contains("s.yaml:3:46: error: alternate: false would have no effect") && Contains("leave the key out"));
  CHECK_THAT(turns_changed("alternate: true", "alternate: 2"), Contains("alternate: '2', wanted is true"));
  CHECK_THAT(turns_changed("alternate: true", "alternat: true"),
             Contains("unknown key 'alternat' of warps") && Contains("did you mean alternate?"));
}

TEST_CASE("a polynomial for what computes no exponential is refused with what does") {
  CHECK(Request{with(testing::kFlash2, "S: {compute_at: j.o, store_in: register",
                     "S: {compute_at: j.o, store_in: register, exp2: {polynomial: 1/4}")}
            .message() ==
        R"(s.yaml:5:48: error: exp2 of S: S computes no exponential, so it would have no effect
    S: {compute_at: j.o, store_in: register, exp2: {polynomial: 1/4}}
                                                   ^
note: exponentials are computed by P
)");
  Request linear{.schedule = with(testing::kFlash2, "S: {compute_at: j.o, store_in: register",
                                  "S: {compute_at: j.o, store_in: register, exp2: {polynomial: 1/4}"),
                 .algorithm = "linear_attention"};
  CHECK_THAT(linear.message(), Contains("exp2 of S: S computes no exponential"));
}

TEST_CASE("a polynomial outside of an inner definition is refused") {
  CHECK_THAT(
      Request{with(testing::kFlash2, "K: {stage_at: j.o", "K: {exp2: {polynomial: 1/4}, stage_at: j.o")}.message(),
      Contains("exp2 belongs to an inner definition, and K is an input"));
}

TEST_CASE("the part that a polynomial computes is more than nothing and at most all") {
  CHECK_THAT(Request{polynomial("0")}.message(),
             Contains("exp2 of P: polynomial 0/1 would have no effect") && Contains("note: polynomial: 1/4"));
  CHECK_THAT(Request{polynomial("5/4")}.message(), Contains("polynomial 5/4 is more than a whole"));
  CHECK_THAT(Request{polynomial("1/65")}.message(),
             Contains("polynomial 1/65 counts in parts of 1/65, allowed are 1/1 to 1/64"));
  CHECK_THAT(Request{polynomial("some")}.message(),
             Contains("polynomial: 'some', wanted is a part of the exponentials, such as 1/2"));
  CHECK_THAT(Request{with(polynomial("1/4"), "polynomial", "polynomal")}.message(),
             Contains("unknown key 'polynomal' of exp2") && Contains("did you mean polynomial?"));
}

TEST_CASE("a CPU has one unit: a schedule for it refuses a polynomial, one for GPUs runs there") {
  CHECK_THAT(Request{polynomial("1/4", testing::kCpuFlash2)}.message(),
             Contains("exp2 of P would have no effect on cpu"));
  Request on_cpu{polynomial("1/4")};
  on_cpu.target = *find_target("cpu");
  CHECK(on_cpu.message() == "");
}

}  // namespace astatide
