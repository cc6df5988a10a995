#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"

// Axes of the rows in two or in one: what is no row, is taken, or has no groups is refused where it is written.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kGroups = "split: {h: [hk, g]}, fuse: {r: [g, i]}";
const std::string kFused = "target: sm_80\nO: {" + kGroups +
                           ", tile: {r: 16, j: 64}, gpu_blocks: [r.o, hk, b], threads: [16, 16]}\n"
                           "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
                           "Q: {stage_at: r.o}\nK: {stage_at: j.o}\nV: {stage_at: j.o}\n";

std::string fused_with(const std::string& directives) {
  return Request{.schedule = with(kFused, kGroups, directives)}.message();
}

std::string parse_of_fused(const std::string& directives) {
  return testing::parse_refusal(with(kFused, kGroups, directives));
}

}  // namespace

TEST_CASE("query heads in groups and queries make one axis of rows") {
  CHECK(Request{.schedule = kFused}.message().empty());
}

TEST_CASE("split and fuse take a map of an axis to a list of axes") {
  CHECK_THAT(
      parse_of_fused("fuse: [g, i]"),
      Contains("s.yaml:2:11: error: fuse: a list, wanted is a map of an axis to axes, the one that varies fastest "
               "first, such as {r: [g, i]}"));
  CHECK_THAT(parse_of_fused("fuse: {r: g}"), Contains("fuse: 'g', wanted is a map of axes to lists of axes"));
  CHECK_THAT(parse_of_fused("fuse: {r: [i]}"),
             Contains("fuse of O: r has 1 entry, wanted is a map of an axis to axes"));
  CHECK_THAT(parse_of_fused("split: {h: [a, b, c]}"),
             Contains("split of O: h has 3 entries, wanted is a map of an axis to the outer axis and the inner one"));
  CHECK_THAT(parse_of_fused("fuse: {r: [g, g]}"), Contains("fuse of O: g occurs twice"));
  CHECK_THAT(parse_of_fused("fuse: {r: [g, for]}"), Contains("fuse of O: for is"));
  CHECK_THAT(parse_of_fused("fuse: {}"), Contains("fuse of O: empty: it would have no effect"));
}

TEST_CASE("only rows are split and fused") {
  CHECK_THAT(fused_with("fuse: {r: [x, i]}"),
             Contains("s.yaml:2:11: error: fuse of O: there is no axis x") && Contains("note: rows are b, h, i"));
  CHECK_THAT(fused_with("fuse: {r: [i, j]}"), Contains("fuse of O: j is the axis that is reduced, no row"));
  CHECK_THAT(fused_with("fuse: {r: [i, d]}"), Contains("fuse of O: d is whole in a tile, no loop runs over it"));
  CHECK_THAT(fused_with("split: {j: [k, l]}"), Contains("split of O: j is the axis that is reduced, no row"));
  CHECK_THAT(fused_with("split: {e: [x, y]}"), Contains("split of O: e is whole in a tile"));
}

TEST_CASE("axes whose lengths differ from item to item are neither split nor fused, nor is what says so") {
  const auto message = [](const std::string& directives) {
    return Request{.schedule = with(kFused, kGroups, directives), .algorithm = "ragged"}.message();
  };
  CHECK_THAT(message(kGroups), Contains("fuse of O: i is as long as") && Contains("which fuse takes no part in"));
  CHECK_THAT(message("fuse: {r: [h, b]}"), Contains("fuse of O: i is as long as"));
}

TEST_CASE("an axis goes into one other, under a name of its own") {
  CHECK_THAT(fused_with("split: {h: [hk, g]}, fuse: {r: [h, i]}"),
             Contains("fuse of O: h is in hk and g already") && Contains("name each axis once"));
  CHECK_THAT(fused_with("split: {h: [hk, i]}"), Contains("split of O: the name i is taken"));
  CHECK_THAT(fused_with("fuse: {Sk: [h, i]}"), Contains("fuse of O: the name Sk is taken"));
  CHECK_THAT(fused_with("fuse: {Q: [h, i]}"), Contains("fuse of O: the name Q is taken"));
}

TEST_CASE("one definition says what the rows are") {
  const std::string twice = with(kFused, "S: {compute_at: j.o, store_in: register}",
                                 "S: {compute_root: true, fuse: {q: [g, i]}, tile: {r: 16, j: 64}, "
                                 "gpu_blocks: [j.o, r.o, hk, b], threads: [16, 16]}");
  CHECK_THAT(Request{.schedule = "rewrite: none\n" + twice}.message(),
             Contains("fuse of S: O has it already, and all definitions have the rows that it names"));
  CHECK_THAT(
      Request{.schedule = with(kFused, "S: {compute_at: j.o", "S: {fuse: {q: [b, hk]}, compute_at: j.o")}.message(),
      Contains("fuse of S: O has it already"));
  CHECK_THAT(Request{.schedule = with(with(kFused, "O: {split: {h: [hk, g]}, ", "O: {"), "S: {compute_at: j.o",
                                      "S: {split: {h: [hk, g]}, compute_at: j.o")}
                 .message(),
             Contains("split belongs to a root definition, and S is"));
}

TEST_CASE("a group is what an index of the algorithm divides an axis by") {
  CHECK_THAT(fused_with("split: {b: [b1, b2]}, fuse: {r: [b2, i]}"),
             Contains("s.yaml:2:12: error: split of O: no index of the algorithm divides b, so it has no groups") &&
                 Contains("without groups b itself can be fused"));
  // As many heads of keys as of queries: nothing can share a tile of keys.
  CHECK_THAT(fused_with("fuse: {r: [h, i]}"), Contains("both factors of a product vary with r"));
  Algorithm two = testing::example_algorithm("causal_gqa");
  for (Func& func : two.define)
    if (func.name == "O") func = parse_definition("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h/2, j, e])", func.where);
  CHECK_THROWS_WITH(
      check_legal(parse_schedule(kFused, "s.yaml"), two, *find_target("sm_80"), {}),
      Contains("split of O: indices divide h in more than one way: h*Hkv/Hq, h/2") && !Contains("there is no axis g"));
}

TEST_CASE("a launch whose heads don't come in whole groups is refused by its numbers") {
  CHECK_THAT((Request{.schedule = kFused, .sizes = {{"D", 64}, {"Dv", 64}, {"Hq", 6}, {"Hkv", 4}}}.message()),
             Contains("s.yaml:2:12: error: split: Hq is 6, which Hkv = 4 does not divide"));
  CHECK((Request{.schedule = kFused, .sizes = {{"D", 64}, {"Dv", 64}, {"Hq", 6}, {"Hkv", 3}}}.message().empty()));
}

TEST_CASE("loops are named after the new axes") {
  CHECK_THAT(Request{.schedule = with(kFused, "gpu_blocks: [r.o, hk, b]", "gpu_blocks: [r.o, h, b]")}.message(),
             Contains("there is no loop h") && Contains("loops of O are b, hk, r.o, j.o"));
  CHECK_THAT(Request{.schedule = with(kFused, "tile: {r: 16", "tile: {i: 16")}.message(),
             Contains("tile of O: there is no axis i") && Contains("loops of O run over b, hk, r, j"));
}

}  // namespace astatide
