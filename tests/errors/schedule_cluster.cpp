#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"

// Clusters of blocks: what has none, and what they would not share, is refused with what would do.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kCluster = R"(target: sm_90a
warps: {producer: 1, consumer: 2}
O: {tile: {i: 128, j: 80}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], cluster: 2}
S: {compute_at: j.o, store_in: register, mma: wgmma}
P: {compute_at: j.o, store_in: register}
Q: {stage_at: i.o, store_in: shared, copy: tma}
K: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}
V: {stage_at: j.o, store_in: shared, copy: tma, ring_buffer: 2}
)";

std::string message(const std::string& schedule) {
  return Request{.schedule = schedule, .type = ScalarType::bf16}.message();
}

std::string outcome(const std::string& schedule) {
  return testing::outcome_of_compile(testing::example_algorithm("causal_gqa"), parse_schedule(schedule, "s.yaml"),
                                     ScalarType::bf16);
}

}  // namespace

TEST_CASE("a cluster has 2 or 4 blocks") {
  CHECK(message(kCluster) == "");
  CHECK_THAT(message(with(kCluster, "cluster: 2", "cluster: 3")),
             Contains("cluster of O: 3, which is no power of two"));
  for (const char* number : {"0", "1", "8"})
    CHECK_THAT(message(with(kCluster, "cluster: 2", std::string("cluster: ") + number)),
               Contains("cluster of O: " + std::string(number) + ", allowed are 2 to 4"));
}

TEST_CASE("clusters are of sm_90a, with a producer") {
  const std::string simt = with(testing::shipped_schedule("simt/flash2"), "h, b]", "h, b], cluster: 2");
  CHECK_THAT(message(simt), Contains("cluster of O: clusters are of sm_90a, the schedule's target is sm_80") &&
                                Contains("note: leave cluster out"));
  const std::string one_role = with(testing::shipped_schedule("sm90/flash2_wgmma"), "h, b]", "h, b], cluster: 2");
  CHECK_THAT(message(one_role), Contains("cluster of O: what blocks share is copied by tma, which needs a producer") &&
                                    Contains("note: warps: {producer: 1, consumer: 2}"));
  CHECK_THAT(message(with(kCluster, "register, mma", "register, cluster: 2, mma")),
             Contains("cluster belongs to a root definition, and S is a definition inside the loops of another"));
}

TEST_CASE("blocks of a cluster share a tile of some input") {
  CHECK(
      message(with(kCluster, "gpu_blocks: [i.o, h, b], cluster: 2}", "gpu_blocks: [h, i.o, b], cluster: 2}")) ==
      R"(s.yaml:3:89: error: cluster of O: blocks that are neighbours along h read no tile in common, it would have no effect
    O: {tile: {i: 128, j: 80}, reorder: [b, h, i.o, j.o], gpu_blocks: [h, i.o, b], cluster: 2}
                                                                                            ^
note: along i.o they share K, V: name it first in gpu_blocks
note: leave cluster out
)");
}

TEST_CASE("a tile has a share for each block of a cluster") {
  CHECK(outcome(kCluster) == "accepted");
  CHECK(outcome(with(with(kCluster, "cluster: 2", "cluster: 4"), "j: 80", "j: 96")) == "accepted");
  CHECK_THAT(
      outcome(with(kCluster, "cluster: 2", "cluster: 4")),
      Contains("s.yaml:3:89: error: cluster: a tile of K has 80 rows along j, shares of 4 blocks need a multiple "
               "of 32") &&
          Contains("note: tiles of 96 along j would do"));
}

TEST_CASE("blocks that stay take the tiles of a cluster together") {
  CHECK(outcome(with(kCluster, "cluster: 2", "cluster: 2, persistent: longest_first")) == "accepted");
  CHECK(outcome(with(kCluster, "cluster: 2", "cluster: 2, persistent: linear")) == "accepted");
  // With one head of keys for all, heads can be neighbours; but where loops differ in length their tiles are taken
  // along the rows first.
  const Algorithm one_head = parse_algorithm(
      "algorithm: one_head\nextents: [B, H, Sq, Sk, D, Dv]\ninputs: {Q: [B, H, Sq, D], K: [B, Sk, D], V: [B, Sk, Dv]}\n"
      "define:\n  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,j,d])\n  - A[b,h,i,j] = S[b,h,i,j] where j <= i\n"
      "  - P[b,h,i,j] = softmax(j, A[b,h,i,j])\n  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,j,e])\noutputs: [O]\n"
      "sizes: {B: 1, H: 4, Sq: 64, Sk: 64, D: 64, Dv: 64}\n",
      "one_head.yaml");
  const std::string by_heads = with(kCluster, "gpu_blocks: [i.o, h, b]", "gpu_blocks: [h, i.o, b]");
  const auto of_one_head = [&](const std::string& schedule) {
    return testing::outcome_of_compile(one_head, parse_schedule(schedule, "s.yaml"), ScalarType::bf16);
  };
  CHECK(of_one_head(by_heads) == "accepted");
  CHECK(of_one_head(with(by_heads, "cluster: 2", "cluster: 2, persistent: linear")) == "accepted");
  CHECK_THAT(
      of_one_head(with(by_heads, "cluster: 2", "cluster: 2, persistent: longest_first")),
      Contains("s.yaml:3:89: error: cluster: blocks are neighbours along h, and persistent: longest_first takes the "
               "tiles along i_o one after the other") &&
          Contains("note: persistent: linear") && Contains("note: gpu_blocks with the loop over i_o first"));
}

}  // namespace astatide
