#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Overlaps that would do nothing or have nothing to overlap.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kOverlapped = with(testing::kFlash2, "S: {compute_at: j.o, store_in: register",
                                     "S: {compute_at: j.o, store_in: register, overlap: {cover: 1/2}");

std::string overlapped_text(const std::string& from, const std::string& to) {
  return Request{with(kOverlapped, from, to)}.message();
}

TEST_CASE("an overlap of the scores is legal, on the CPU too") {
  CHECK(Request{kOverlapped}.problems().empty());
  CHECK(Request{with(testing::kCpuFlash2, "S: {compute_at: j.o, store_in: shared",
                     "S: {compute_at: j.o, store_in: shared, overlap: {cover: 0}")}
            .problems()
            .empty());
}

TEST_CASE("an overlap of what holds no product is refused") {
  CHECK(Request{with(testing::kFlash2, "P: {compute_at: j.o, store_in: shared",
                     "P: {compute_at: j.o, store_in: shared, overlap: {cover: 1/2}")}
            .message() ==
        R"(s.yaml:6:49: error: overlap of P: P holds no product, and the product of the next tile is what runs ahead
    P: {compute_at: j.o, store_in: shared, overlap: {cover: 1/2}}
                                                    ^
note: leave it out
)");
}

TEST_CASE("an overlap outside of an inner definition is refused") {
  CHECK_THAT(overlapped_text("K: {stage_at: j.o", "K: {overlap: {cover: 1/2}, stage_at: j.o"),
             Contains("overlap belongs to an inner definition, and K is an input"));
  CHECK_THAT(overlapped_text("threads: [16, 16]", "threads: [16, 16], overlap: {cover: 1/2}"),
             Contains("overlap belongs to an inner definition, and O is a root definition"));
}

TEST_CASE("an overlap without a second product is refused with their number") {
  std::string schedule = with(kOverlapped, "V: {stage_at: j.o, store_in: shared}\n", "");
  Request entropy{schedule, "entropy"};
  entropy.sizes = {{"D", 64}};
  CHECK_THAT(entropy.message(), Contains("overlap of S: 1 product of tiles over j, and two are overlapped"));
}

TEST_CASE("an overlap where each reduction has a pass of its own is refused") {
  CHECK_THAT(overlapped_text("rewrite: online", "rewrite: none"),
             Contains("overlap of S: rewrite: none makes a pass over j for each reduction") &&
                 Contains("note: rewrite: online"));
}

TEST_CASE("an overlap without a next tile of the same rows is refused") {
  const std::string flash1 = with(testing::kFlash1, "S: {compute_at: i.o, store_in: register",
                                  "S: {compute_at: i.o, store_in: register, overlap: {cover: 1/2}");
  CHECK_THAT(Request{flash1}.message(), Contains("overlap of S: i.o lies inside j.o, so that the next tile is one of "
                                                 "other rows, whose state is stored between them"));
  CHECK_THAT(overlapped_text("rewrite: online", "rewrite: online\nbound: {Sk: 64}"),
             Contains("overlap of S: the bound 64 of j is within a tile of 64, there is no next one"));
}

TEST_CASE("a cover of no whole number of columns is refused with their number") {
  CHECK_THAT(overlapped_text("cover: 1/2", "cover: 1/3"),
             Contains("overlap of S: cover 1/3 of the 64 columns of a tile is no whole number"));
}

}  // namespace
}  // namespace astatide
