// Spaces of schedules: what varies, which points there are, and what schedule each is.
#include "compiler/tune/space.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <map>
#include <set>

#include "api/tune.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using Catch::Contains;

namespace {

constexpr const char* kSpaceText = R"(target: sm_80
rewrite: {online: {rescale: [plain, lazy]}}
O: {tile: {i: [64, 128, 192], j: range(32, 96, 16)}, reorder: [b, h, i.o, j.o], gpu_blocks: [[i.o, h, b], [h, i.o, b]], threads: [[16, 8], [8, 16]]}
S: {compute_at: j.o, store_in: register}
P: {compute_at: j.o, store_in: [[shared, register], shared]}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared}
V: {stage_at: j.o, store_in: shared}
choose:
  ring:
    one: {}
    two: {K: {ring_buffer: 2, copy: cp_async}, V: {ring_buffer: 2, copy: cp_async}}
where: tile.i * tile.j <= 8192
)";

std::map<std::string, std::int64_t> shape_of_width(std::int64_t d) {
  return {{"B", 2}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 4096}, {"Sk", 4096}, {"D", d}, {"Dv", d}};
}

bool is_legal(const Schedule& schedule, const Algorithm& algorithm, std::int64_t d) {
  try {
    check_legal(schedule, algorithm, *find_target("sm_90a"), shape_of_width(d), ScalarType::bf16);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

SpacePoint point_of(const ScheduleSpace& space, const std::map<std::string, std::string>& values) {
  SpacePoint point;
  for (const SpaceAxis& axis : space.axes()) {
    const auto at = std::find(axis.values.begin(), axis.values.end(), values.at(axis.name));
    REQUIRE(at != axis.values.end());
    point.push_back(static_cast<std::size_t>(at - axis.values.begin()));
  }
  CHECK(space.why_not(point).empty());
  return point;
}

/// Words of a schedule, whatever their order; what it serves, and a ring of one slot, are no part of it.
std::multiset<std::string> words_of(Schedule schedule) {
  schedule.serves.reset();
  for (Placement& placement : schedule.placements)
    std::erase_if(placement.directives, [](const Directive& directive) {
      return directive.kind == DirectiveKind::ring_buffer && directive.value == DirectiveValue(std::int64_t{1});
    });
  std::multiset<std::string> out;
  std::string word;
  for (const char c : print_schedule(schedule) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/') {
      word += c;
    } else if (!word.empty()) {
      out.insert(std::exchange(word, ""));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("lists and ranges are axes where a value is none, lists of lists where it is one") {
  const ScheduleSpace space = parse_space(kSpaceText, "s.yaml");
  std::vector<std::string> axes;
  for (const SpaceAxis& axis : space.axes()) {
    std::string text = axis.name + (axis.ordered ? "<" : "") + ":";
    for (const std::string& value : axis.values) text += " " + value;
    axes.push_back(text);
  }
  CHECK(axes == std::vector<std::string>{"rewrite.online.rescale: plain lazy", "O.tile.i<: 64 128 192",
                                         "O.tile.j<: 32 48 64 80 96", "O.gpu_blocks: [i.o, h, b] [h, i.o, b]",
                                         "O.threads: [16, 8] [8, 16]", "P.store_in: [shared, register] shared",
                                         "ring: one two"});
  CHECK(space.points() == 2 * 3 * 5 * 2 * 2 * 2 * 2);
}

TEST_CASE("points and indices name each other, and each point is the schedule that the file with its values is") {
  const ScheduleSpace space = parse_space(kSpaceText, "s.yaml");
  std::set<std::string> schedules;
  for (std::uint64_t index = 0; index < space.points(); ++index) {
    const SpacePoint point = space.point_at(index);
    CHECK(space.index_of(point) == index);
    schedules.insert(print_schedule(space.schedule_at(point)));
  }
  CHECK(schedules.size() == space.points());
  const SpacePoint point{1, 2, 1, 1, 0, 1, 1};
  CHECK(space.describe(point) ==
        "rewrite.online.rescale=lazy, O.tile.i=192, O.tile.j=48, O.gpu_blocks=[h, i.o, b], O.threads=[16, 8], "
        "P.store_in=shared, ring=two");
  CHECK(equal(space.schedule_at(point), parse_schedule(R"(target: sm_80
rewrite: {online: {rescale: lazy}}
O: {tile: {i: 192, j: 48}, reorder: [b, h, i.o, j.o], gpu_blocks: [h, i.o, b], threads: [16, 8]}
S: {compute_at: j.o, store_in: register}
P: {compute_at: j.o, store_in: shared}
Q: {stage_at: i.o, store_in: shared}
K: {stage_at: j.o, store_in: shared, ring_buffer: 2, copy: cp_async}
V: {stage_at: j.o, store_in: shared, ring_buffer: 2, copy: cp_async}
)",
                                                       "s.yaml")));
}

TEST_CASE("neighbours are one step away on one axis, any other value where values have no order") {
  const ScheduleSpace space = parse_space(kSpaceText, "s.yaml");
  // One of rescale, both sides of i, one of j, and one of each other axis.
  CHECK(space.neighbours({0, 1, 0, 0, 0, 0, 0}).size() == 1 + 2 + 1 + 1 + 1 + 1 + 1);
}

TEST_CASE("conditions hold over numbers at places, and leave out points") {
  const ScheduleSpace space = parse_space(kSpaceText, "s.yaml");
  CHECK(space.why_not({0, 1, 2, 0, 0, 0, 0}).empty());  // 128 * 64
  CHECK(space.why_not({0, 1, 3, 0, 0, 0, 0}) == "where tile.i * tile.j <= 8192");
  const std::string text = std::string(kSpaceText) + "extra: {compute_at: j.o}\n";
  const std::string ring =
      text.substr(0, text.find("where:")) + "where: [K.ring_buffer == V.ring_buffer and K.ring_buffer > 2]\n";
  // Not asked of a point without rings; of the other it does not hold.
  CHECK(parse_space(ring, "s.yaml").why_not({0, 0, 0, 0, 0, 0, 0}).empty());
  CHECK_FALSE(parse_space(ring, "s.yaml").why_not({0, 0, 0, 0, 0, 0, 1}).empty());
}

TEST_CASE("a space that is built is the space of the file that says the same") {
  const Schedule base = load_schedule("simt/flash2");
  const ScheduleSpace built = SpaceBuilder(base)
                                  .vary("O.tile.i", {"64", "128"})
                                  .vary("O.threads", {"[16, 8]", "[8, 16]"})
                                  .vary("K.ring_buffer", {"1", "2"})
                                  .choose("scores", {{"shared", "P: {align_storage: {j: 8}}"}, {"plain", "{}"}})
                                  .where("tile.i <= 128")
                                  .build();
  CHECK(built.points() == 16);
  const Schedule last = built.schedule_at({1, 1, 1, 0});
  CHECK(last.find("O")->tile_of("i") == 128);
  CHECK(last.find("O")->threads() == std::pair(8, 16));
  CHECK(last.find("K")->ring_buffer() == 2);
  CHECK(last.find("P")->align_storage_of("j") == 8);
  CHECK(built.largest_tiles() == std::vector<std::pair<std::string, std::int64_t>>{{"i", 128}, {"j", 64}});
  CHECK(built.text() != parse_space(kSpaceText, "s.yaml").text());
}

TEST_CASE("schedules/README.md shows a space that is one") {
  const std::string text = testing::text_of(testing::source_path("schedules/README.md"));
  const std::size_t heading = text.find("\n## Spaces\n");
  REQUIRE(heading != std::string::npos);
  const std::size_t begin = text.find("```yaml\n", heading) + 8, end = text.find("```", begin);
  const ScheduleSpace space = parse_space(text.substr(begin, end - begin), "README.md");
  CHECK(space.points() == 3 * 5 * 8 * 2 * 2);
}

TEST_CASE("spaces of the exhaustive comparison hold the shipped schedules, and some 500 legal points by a sample") {
  struct Case {
    std::int64_t width;
    std::string shipped, rows, columns, slots_of_q, consumers, ring;
  };
  for (const Case& c : {Case{128, "sm90/flash3", "128", "128", "1", "2", "three"},
                        Case{64, "sm90/flash3_d64", "256", "64", "2", "4", "four"}}) {
    INFO("D " << c.width);
    const ScheduleSpace space =
        load_space(source_path("tests/perf/spaces/flash3_d" + std::to_string(c.width) + ".yaml"));
    CHECK(words_of(space.schedule_at(point_of(space, {{"rewrite.online.rescale", "optimistic"},
                                                      {"O.tile.i", c.rows},
                                                      {"O.tile.j", c.columns},
                                                      {"Q.ring_buffer", c.slots_of_q},
                                                      {"warps.consumer", c.consumers},
                                                      {"ring", c.ring},
                                                      {"cover", "all"}}))) == words_of(load_schedule(c.shipped)));
    const Algorithm algorithm = load_algorithm("causal_gqa");
    std::size_t kept = 0, seen = 0, legal = 0;
    for (std::uint64_t index = 0; index < space.points(); ++index) {
      const SpacePoint point = space.point_at(index);
      if (!space.why_not(point).empty() || kept++ % 5 != 0) continue;
      ++seen;
      legal += is_legal(space.schedule_at(point), algorithm, c.width) ? 1 : 0;
    }
    const double all = static_cast<double>(kept * legal) / static_cast<double>(seen);
    INFO(kept << " keep the conditions, " << legal << " legal of " << seen);
    CHECK(all > 480);
    CHECK(all < 580);
  }
}

TEST_CASE("shipped spaces hold the shipped schedules that they are around, and 500 legal points of each width") {
  for (const std::string& name : shipped_spaces()) CHECK(load_space(name).points() > 50);
  const ScheduleSpace space = load_space("sm90_flash3");
  const Algorithm algorithm = load_algorithm("causal_gqa");
  CHECK(words_of(space.schedule_at(point_of(space, {{"rewrite.online.rescale", "optimistic"},
                                                    {"O.tile.i", "128"},
                                                    {"O.tile.j", "128"},
                                                    {"O.gpu_blocks", "[i.o, h, b]"},
                                                    {"O.persistent", "longest_first"},
                                                    {"Q.ring_buffer", "1"},
                                                    {"warps.consumer", "2"},
                                                    {"ring", "three"},
                                                    {"cover", "all"},
                                                    {"keys", "last_first"}}))) ==
        words_of(load_schedule("sm90/flash3")));
  CHECK(words_of(space.schedule_at(point_of(space, {{"rewrite.online.rescale", "optimistic"},
                                                    {"O.tile.i", "256"},
                                                    {"O.tile.j", "64"},
                                                    {"O.gpu_blocks", "[i.o, h, b]"},
                                                    {"O.persistent", "longest_first"},
                                                    {"Q.ring_buffer", "2"},
                                                    {"warps.consumer", "4"},
                                                    {"ring", "four"},
                                                    {"cover", "all"},
                                                    {"keys", "last_first"}}))) ==
        words_of(load_schedule("sm90/flash3_d64")));
  for (const std::int64_t width : {64, 128}) {
    std::size_t legal = 0, seen = 0;
    // Far apart, so that few are looked at: one in 97 of all, of which so many more are legal.
    for (std::uint64_t index = 0; index < space.points(); index += 97) {
      const SpacePoint point = space.point_at(index);
      if (!space.why_not(point).empty()) continue;
      ++seen;
      legal += is_legal(space.schedule_at(point), algorithm, width) ? 1 : 0;
    }
    INFO(width << ": " << legal << " legal of " << seen);
    CHECK(97 * legal >= 500);
  }
}
