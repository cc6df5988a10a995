#include <catch2/catch.hpp>

#include "compiler/schedule/rescale.h"
#include "tests/support/schedule_cases.h"

namespace astatide {
namespace {

Schedule flash2_by_builder() {
  return ScheduleBuilder("sm_80")
      .rewrite(RewriteMode::online)
      .place(PlacementBuilder("O")
                 .tile({{"i", 64}, {"j", 64}})
                 .reorder({"b", "h", "i.o", "j.o"})
                 .gpu_blocks({"i.o", "h", "b"})
                 .threads(16, 16))
      .place(PlacementBuilder("S").compute_at("j.o").store_in(Space::register_file))
      .place(PlacementBuilder("P").compute_at("j.o").store_in(Space::shared))
      .place(PlacementBuilder("Q").stage_at("i.o").store_in(Space::shared))
      .place(PlacementBuilder("K").stage_at("j.o").store_in(Space::shared).ring_buffer(2))
      .place(PlacementBuilder("V").stage_at("j.o").store_in(Space::shared))
      .build();
}

const char* const kFlash2 = R"(
O: {tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
S: {compute_at: j.o, store_in: register}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared, ring_buffer: 2}
V: {stage_at: j.o, store_in: shared}
)";

TEST_CASE("YAML and the C++ API build the same value") {
  CHECK(equal(parse_schedule(kFlash2, "flash2.yaml"), flash2_by_builder()));
}

TEST_CASE("a schedule that differs in one directive is another one") {
  const Schedule flash2 = flash2_by_builder();
  const auto changed = [](const std::string& from, const std::string& to) {
    return parse_schedule(testing::with(kFlash2, from, to), "changed.yaml");
  };
  CHECK_FALSE(equal(flash2, changed("ring_buffer: 2", "ring_buffer: 3")));
  CHECK_FALSE(equal(flash2, changed(", ring_buffer: 2", "")));
  CHECK_FALSE(equal(flash2, changed("store_in: register", "store_in: shared")));
  CHECK_FALSE(equal(flash2, changed("[b, h, i.o, j.o]", "[b, h, j.o, i.o]")));
  CHECK_FALSE(equal(flash2, changed("j: 64", "j: 32")));
  CHECK_FALSE(equal(flash2, parse_schedule(std::string(kFlash2) + "rewrite: none\n", "none.yaml")));
  CHECK_FALSE(equal(flash2, parse_schedule(std::string(kFlash2) + "bound: {Sk: 1024}\n", "bound.yaml")));
}

TEST_CASE("a cover is read as a part, or as none or all") {
  const auto cover = [](const std::string& text) {
    return parse_schedule("S: {compute_at: j.o, overlap: {cover: " + text + "}}\n", "s.yaml").find("S")->overlap();
  };
  CHECK(cover("1/2") == Fraction{1, 2});
  CHECK(cover("0") == Fraction{0, 1});
  CHECK(cover("1") == Fraction{1, 1});
  CHECK(PlacementBuilder("S").overlap(3, 4).placement().overlap() == Fraction{3, 4});
  CHECK_FALSE(PlacementBuilder("S").compute_at("j.o").placement().overlap().has_value());
}

TEST_CASE("accessors give what is written") {
  const Schedule schedule = flash2_by_builder();
  const Placement& output = *schedule.find("O");
  CHECK(output.tile_of("i") == 64);
  CHECK_FALSE(output.tile_of("d").has_value());
  CHECK(output.blocks() == std::vector<LoopName>{"i.o", "h", "b"});
  CHECK(output.threads() == std::pair{16, 16});
  CHECK_FALSE(output.compute_root());
  CHECK(schedule.find("S")->store_in() == Space::register_file);
  CHECK(schedule.find("S")->compute_at() == "j.o");
  CHECK(schedule.find("K")->ring_buffer() == 2);
  CHECK(schedule.find("V")->ring_buffer() == 1);
  CHECK(schedule.find("V")->stage_at() == "j.o");
  CHECK(schedule.find("A") == nullptr);
}

TEST_CASE("without reorder the blocks' loops lie outside, slowest first, then the other tiles") {
  const PlacementBuilder output = PlacementBuilder("O").tile({{"i", 64}, {"j", 32}}).gpu_blocks({"i.o", "h", "b"});
  CHECK(output.placement().reorder() == std::vector<LoopName>{"b", "h", "i.o", "j.o"});
}

TEST_CASE("rewrite in full is the same as in short, and online is the default") {
  const Schedule full = parse_schedule(std::string("rewrite: {online: {rescale: plain}}") + kFlash2, "full.yaml");
  CHECK(equal(full, flash2_by_builder()));
  CHECK(parse_schedule("rewrite: none\nO: {tile: {i: 1}}\n", "none.yaml").rewrite == RewriteMode::none);
  const std::string lazy = "rewrite: {online: {rescale: lazy, grow: 20}}";
  CHECK(parse_schedule(lazy + kFlash2, "lazy.yaml").rescale == Rescale{RescaleMode::lazy, 20, std::nullopt});
  CHECK_FALSE(equal(parse_schedule(lazy + kFlash2, "lazy.yaml"), flash2_by_builder()));
}

TEST_CASE("numbers of rescale that are left out follow from the type of weights and from the other number") {
  const auto bounds = [](std::optional<int> grow, std::optional<int> over, ScalarType type) {
    return rescale_bounds(ScheduleBuilder("cpu").rescale(RescaleMode::optimistic, grow, over).build(), type);
  };
  CHECK(bounds(std::nullopt, std::nullopt, ScalarType::f32) == RescaleBounds{30, 60});
  CHECK(bounds(std::nullopt, std::nullopt, ScalarType::bf16) == RescaleBounds{30, 60});
  CHECK(bounds(std::nullopt, std::nullopt, ScalarType::f16) == RescaleBounds{8, 14});
  CHECK(bounds(std::nullopt, 5, ScalarType::f32) == RescaleBounds{5, 5});
  CHECK(bounds(70, std::nullopt, ScalarType::f32) == RescaleBounds{70, 70});
  CHECK(bounds(3, 4, ScalarType::f16) == RescaleBounds{3, 4});
}

TEST_CASE("a schedule is named after its file, and places are those of the file") {
  const Schedule schedule = parse_schedule("target: cpu\nO: {tile: {i: 8},\n    parallel: [i.o]}\n", "a/b/mine.yaml");
  CHECK(schedule.name == "mine");
  const Placement& output = *schedule.find("O");
  CHECK(output.where.line == 2);
  CHECK(output.where.column == 1);
  CHECK(output.directives[0].where.column == 11);
  CHECK(output.directives[1].where.line == 3);
  CHECK(output.directives[1].where.text == "    parallel: [i.o]}");
}

TEST_CASE("the C++ text of a schedule is its builder") {
  const Schedule schedule = ScheduleBuilder("sm_80")
                                .name("row")
                                .rewrite(RewriteMode::none)
                                .bound("Sk", 1024)
                                .place(PlacementBuilder("P").compute_root().unroll({{"d", 4}}))
                                .place(PlacementBuilder("K").stage_at("j.o").store_in(Space::register_file))
                                .build();
  CHECK(print_schedule_as_cpp(schedule) == R"(Schedule schedule =
    ScheduleBuilder("sm_80")
        .name("row")
        .rewrite(RewriteMode::none)
        .bound("Sk", 1024)
        .place(PlacementBuilder("P")
                   .compute_root()
                   .unroll({{"d", 4}}))
        .place(PlacementBuilder("K")
                   .stage_at("j.o")
                   .store_in(Space::register_file))
        .build();
)");
}

}  // namespace
}  // namespace astatide
