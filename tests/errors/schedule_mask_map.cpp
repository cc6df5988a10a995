// Where a map of masks can't be made.
#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Matchers::Contains;

namespace {

std::string said(const Algorithm& algorithm, const std::string& schedule, ScalarType type = ScalarType::f32) {
  return outcome_of_compile(algorithm, parse_schedule(schedule, "s.yaml"), type);
}
std::string mapped(const std::string& schedule, const std::string& from = "O: {", const std::string& more = "") {
  return with(shipped_schedule(schedule), from, from + "mask_map: true, " + more);
}
Algorithm changed(const std::string& name, const std::string& from, const std::string& to) {
  return parse_algorithm(with(print_algorithm(example_algorithm(name)), from, to), "a.yaml");
}

}  // namespace

TEST_CASE("a map of masks is of one loop over all tiles, whose condition reads nothing of the kernel's own") {
  CHECK(said(example_algorithm("dense_mask"), mapped("simt/flash2")) == "accepted");
  CHECK_THAT(said(example_algorithm("dense_mask"), mapped("simt/standard")),
             Contains("mask_map of O: the passes of rewrite: none each go over the whole axis") &&
                 Contains("note: rewrite: online"));
  CHECK_THAT(said(example_algorithm("dense_mask"), mapped("simt/decode")),
             Contains("mask_map of O: rfactor cuts j into parts") && Contains("note: leave rfactor out"));
  CHECK_THAT(said(example_algorithm("dense_mask"), mapped("sm90/flash3_cluster"), ScalarType::bf16),
             Contains("mask_map of O: blocks of a cluster copy the same tiles together"));
  CHECK_THAT(said(example_algorithm("dense_mask"), mapped("simt/flash1")),
             Contains("mask_map: the loop over i_o does not run over all tiles of the reduced axis"));
  CHECK_THAT(said(example_algorithm("attention"), mapped("simt/flash2")),
             Contains("mask_map: no element of attention has a condition") && Contains("s.yaml:5:") &&
                 Contains("note: leave mask_map out"));
  CHECK_THAT(said(changed("dense_mask", "where visible[b,i,j]", "where visible[b,i,j] and S[b,h,i,j] > 0"),
                  mapped("simt/flash2")),
             Contains("mask_map: not all that dense_mask computes in a tile has the same condition"));
  CHECK_THAT(said(example_algorithm("ragged"), mapped("simt/flash2")),
             Contains("mask_map: the reduced axis is not equally long everywhere"));
}
