#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Places that do not exist or mean nothing: each is refused with the legal ones.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kLegalOnline = "note: legal for S is j.o of O";

std::string message_at(const std::string& loop) {
  return Request{with(testing::kFlash2, "S: {compute_at: j.o", "S: {compute_at: " + loop)}.message();
}

TEST_CASE("a table that an index reads is no operand that wants a place") {
  const Request paged{testing::kFlash2, "paged"};
  CHECK(paged.message().empty());
  const Request without_keys{with(testing::kFlash2, "K: {stage_at: j.o, store_in: shared}\n", ""), "paged"};
  CHECK_THAT(without_keys.message(), Contains("K has no place: a product reads it") && !Contains("page has no place"));
}

TEST_CASE("S01: a tile between two loops over blocks is refused with the legal places") {
  CHECK(
      message_at("h") ==
      R"(s.yaml:5:17: error: compute_at of S: S is computed at h, an outer loop over blocks: what lies between the loops over blocks runs nowhere
    S: {compute_at: h, store_in: register}
                    ^
note: legal for S is j.o of O
)");
}

TEST_CASE("S01: a tile at a loop over threads is refused with the legal places") {
  CHECK_THAT(message_at("j.i"), Contains("compute_at of S: j.i is a loop over the threads and vectors inside a tile") &&
                                    Contains(kLegalOnline));
  CHECK_THAT(message_at("i.i"), Contains("is a loop over the threads") && Contains(kLegalOnline));
}

TEST_CASE("S01: a tile at a loop of another kernel is refused with the legal places") {
  // The kernel of P runs over rows one by one and has a loop i that the kernel of O has not.
  std::string schedule =
      with(testing::kStandard,
           "P: {compute_root: true, tile: {i: 16, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]",
           "P: {compute_root: true, tile: {j: 64}, gpu_blocks: [i, h, b]");
  schedule = with(schedule, "V: {stage_at: j.o", "V: {stage_at: i");
  CHECK(Request{schedule}.message() ==
        R"(s.yaml:9:15: error: stage_at of V: i is a loop of P, and V belongs to the kernel of O
    V: {stage_at: i, store_in: shared}
                  ^
note: legal for V is j.o of O
)");
}

TEST_CASE("S01: a tile at a loop that does not exist is refused with the legal places") {
  CHECK_THAT(message_at("k.o"), Contains("compute_at of S: there is no loop k.o") && Contains(kLegalOnline));
  CHECK_THAT(message_at("j"), Contains("compute_at of S: j is tiled, its loop is j.o") && Contains(kLegalOnline));
  CHECK_THAT(message_at("b.o"), Contains("compute_at of S: b is not tiled, its loop is b") && Contains(kLegalOnline));
  CHECK_THAT(message_at("d.o"), Contains("compute_at of S: there is no loop d.o") && Contains(kLegalOnline));
}

TEST_CASE("online, a tile around the innermost loop is refused") {
  CHECK_THAT(message_at("i.o"),
             Contains("rewrite: online computes it in the innermost loop") && Contains(kLegalOnline));
}

TEST_CASE("a copy outside a loop that chooses its tile is refused") {
  CHECK(Request{with(testing::kFlash2, "K: {stage_at: j.o", "K: {stage_at: i.o")}.message() ==
        R"(s.yaml:8:15: error: stage_at of K: K is staged at i.o, outside j.o, which chooses its tile
    K: {stage_at: i.o, store_in: shared}
                  ^
note: legal for K is j.o of O
)");
}

TEST_CASE("per-tile reduction without the rewrite is refused") {
  const std::string schedule =
      with(with(testing::kFlash2, "rewrite: online", "rewrite: none"), "store_in: register", "store_in: shared");
  CHECK(
      Request{schedule}.message() ==
      R"(s.yaml:5:17: error: compute_at of S: per-tile reduction without the rewrite: S is computed at j.o, a tile of j at a time, and O needs reductions over all of j before it reads them
    S: {compute_at: j.o, store_in: shared}
                    ^
note: legal for S is i.o of O, or compute_root: true
note: rewrite: online carries the reductions over the tiles of j
)");
}

TEST_CASE("a single reduction streams without the rewrite: nothing has to be complete before it") {
  std::string schedule = with(testing::kFlash2, "rewrite: online", "rewrite: none");
  Request request{schedule, "sigmoid_attention"};
  request.sizes = testing::example_algorithm("sigmoid_attention").sizes;
  CHECK(request.message().empty());
}

TEST_CASE("without the rewrite the reduced axis is innermost") {
  const std::string schedule = with(testing::kFusedRow, "reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]",
                                    "reorder: [b, h, j.o, i.o], gpu_blocks: [h, b]");
  CHECK_THAT(
      Request{schedule}.message(),
      Contains("reorder of O: rewrite: none passes over j once for each reduction, so j.o is the innermost loop") &&
          Contains("note: reorder: [b, h, i.o, j.o]"));
}

TEST_CASE("a row in shared memory needs a bound") {
  CHECK(
      Request{with(testing::kFusedRow, "bound: {Sk: 1024}\n", "")}.message() ==
      R"(s.yaml:5:17: error: compute_at of S: at i.o the tile holds all of j, whose length Sk is known at run time only
    S: {compute_at: i.o, store_in: shared}
                    ^
note: bound: {Sk: 1024}
)");
}

TEST_CASE("a row in registers is refused") {
  CHECK_THAT(Request{with(testing::kFusedRow, "S: {compute_at: i.o, store_in: shared}",
                          "S: {compute_at: i.o, store_in: register}")}
                 .message(),
             Contains("store_in of S: at i.o the tile holds all of j") && Contains("note: store_in: shared"));
}

TEST_CASE("online, a definition at root is refused") {
  CHECK_THAT(Request{with(testing::kStandard, "rewrite: none", "rewrite: online")}.message(),
             Contains("compute_root of S: rewrite: online computes it tile by tile") && Contains("compute_root of P"));
}

TEST_CASE("a factor of a product without a place is refused on a GPU") {
  CHECK(Request{with(testing::kFlash2, "K: {stage_at: j.o, store_in: shared}\n", "")}.message() ==
        "s.yaml: error: K has no place: a product reads it, and multiply-adds read their operands from shared memory\n"
        "note: K: {stage_at: j.o, store_in: shared}\n");
}

TEST_CASE("without the rewrite scores need a place") {
  const std::string schedule = with(testing::kFusedRow, "S: {compute_at: i.o, store_in: shared}\n", "");
  CHECK_THAT(Request{schedule}.message(), Contains("S has no place: rewrite: none reads its whole row") &&
                                              Contains("note: S: {compute_at: i.o, store_in: shared}"));
}

}  // namespace
}  // namespace astatide
