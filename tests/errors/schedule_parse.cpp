#include <catch2/catch.hpp>

#include "compiler/schedule/rescale.h"
#include "tests/support/schedule_cases.h"

// Texts that are no schedule: what is wrong, and where.

namespace astatide {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a cover that is no part of a whole is refused") {
  CHECK(testing::parse_refusal("S: {overlap: {cover: 3/2}}\n") ==
        R"(s.yaml:1:14: error: overlap of S: cover 3/2 is more than a whole
    S: {overlap: {cover: 3/2}}
                 ^)");
  CHECK_THAT(testing::parse_refusal("S: {overlap: {cover: 1/100}}\n"),
             Contains("overlap of S: cover 1/100 counts in parts of 1/100, allowed are 1/1 to 1/64"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {cover: -1/2}}\n"),
             Contains("overlap of S: cover -1/2 is less than nothing"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {cover: 1/0}}\n"), Contains("allowed are 1/1 to 1/64"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {cover: half}}\n"),
             Contains("cover: 'half', wanted is a part of the columns, such as 1/2"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {cover: 0.5}}\n"),
             Contains("wanted is a part of the columns, such as 1/2"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {part: 1/2}}\n"), Contains("unknown key 'part' of overlap"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: true}\n"),
             Contains("wanted is a part of the columns, such as {cover: 1/2}"));
  CHECK_THAT(testing::parse_refusal("S: {overlap: {}}\n"),
             Contains("wanted is a part of the columns, such as {cover: 1/2}"));
}

TEST_CASE("S07: a misspelt, misplaced, repeated or mistyped key is an error with its place, all of them at once") {
  CHECK(testing::parse_refusal(R"(target: sm_80
O: {tilek: {i: 64}, threads: ['64 ', 16]}
K: {stage_at: j.o, stage_at: i.o, ring_buffer: 64.5}
tile: {i: 64}
P: {compute_at: j.o, rewrite: none}
)") == R"(s.yaml:2:5: error: unknown directive 'tilek' of O
    O: {tilek: {i: 64}, threads: ['64 ', 16]}
        ^
note: did you mean tile?
s.yaml:2:31: error: threads: the text "64 ", wanted is two integers, such as [16, 16]
    O: {tilek: {i: 64}, threads: ['64 ', 16]}
                                  ^
s.yaml:3:20: error: 'stage_at' is given twice
    K: {stage_at: j.o, stage_at: i.o, ring_buffer: 64.5}
                       ^
s.yaml:3:48: error: ring_buffer: '64.5', wanted is an integer
    K: {stage_at: j.o, stage_at: i.o, ring_buffer: 64.5}
                                                   ^
s.yaml:4:1: error: tile is no key of the top level, it belongs to a root definition
    tile: {i: 64}
    ^
note: NAME: {tile: ...}
s.yaml:5:22: error: rewrite is a key of the top level, not of P
    P: {compute_at: j.o, rewrite: none}
                         ^)");
}

TEST_CASE("an unknown target is refused with the nearest and all known ones") {
  CHECK(testing::parse_refusal("target: sm_90\nO: {tile: {i: 1}}\n") == R"(s.yaml:1:9: error: unknown target sm_90
    target: sm_90
            ^
note: did you mean sm_90a?
note: known are sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120, cpu)");
}

TEST_CASE("numbers of rescale that mean nothing, or lie outside of their range, are refused") {
  const auto message = [](const std::string& options) {
    return testing::parse_refusal("rewrite: {online: {" + options + "}}\n");
  };
  CHECK(message("rescale: lazy, over: 60") ==
        R"(s.yaml:1:41: error: over would have no effect with rescale: lazy
    rewrite: {online: {rescale: lazy, over: 60}}
                                            ^
note: leave it out)");
  CHECK_THAT(message("rescale: plain, grow: 3"), Contains("grow would have no effect with rescale: plain"));
  CHECK_THAT(message("grow: 3"), Contains("grow would have no effect with rescale: plain"));
  CHECK_THAT(message("rescale: lazy, grow: 97"), Contains("s.yaml:1:41: error: grow: 97, allowed are 0 to 96"));
  CHECK_THAT(message("rescale: optimistic, over: -1"), Contains("over: -1, allowed are 0 to 96"));
  CHECK_THAT(message("rescale: optimistic, over: 99999999999"), Contains("over: 2147483647, allowed are 0 to 96"));
  CHECK_THAT(message("rescale: optimistic, grow: 20, over: 10"), Contains("grow: 20 is more than over: 10"));
  CHECK_THAT(message("rescale: lazy, grow: 2.5"), Contains("grow: '2.5', wanted is an integer"));
}

TEST_CASE("what weights are rounded to bounds how far they may grow") {
  const auto message = [](const std::string& options, ScalarType type) -> std::string {
    try {
      rescale_bounds(parse_schedule("rewrite: {online: {" + options + "}}\nO: {tile: {i: 1}}\n", "s.yaml"), type);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message("rescale: lazy, grow: 16", ScalarType::f16) ==
        R"(s.yaml:1:41: error: grow: 16 lets weights reach 2^16, and they are rounded to f16, which ends below 2^16
    rewrite: {online: {rescale: lazy, grow: 16}}
                                            ^
note: grow: 15 is the largest for f16)");
  CHECK_THAT(message("rescale: optimistic, grow: 8, over: 30", ScalarType::f16),
             Contains("over: 30 lets weights reach 2^30, and they are rounded to f16"));
  CHECK(message("rescale: lazy, grow: 15", ScalarType::f16) == "accepted");
  CHECK(message("rescale: optimistic, grow: 96, over: 96", ScalarType::bf16) == "accepted");
}

TEST_CASE("the rewrite is a known word or map") {
  CHECK_THAT(testing::parse_refusal("rewrite: onlin\n"),
             Contains("unknown rewrite 'onlin'") && Contains("did you mean online?"));
  CHECK_THAT(testing::parse_refusal("rewrite: [online]\n"), Contains("rewrite: a list, wanted is none or online"));
  CHECK_THAT(testing::parse_refusal("rewrite: {none: {}}\n"), Contains("none takes no options"));
  CHECK_THAT(testing::parse_refusal("rewrite: {online: {}}\n"), Contains("online: a map, wanted is {rescale: lazy}"));
  CHECK_THAT(testing::parse_refusal("rewrite: {online: {rescales: plain}}\n"), Contains("did you mean rescale?"));
  CHECK_THAT(testing::parse_refusal("rewrite: {online: {rescale: fast}}\n"), Contains("unknown rescale 'fast'"));
  CHECK_THAT(testing::parse_refusal("rewrite: {online: {rescale: lasy}}\n"), Contains("did you mean lazy?"));
}

TEST_CASE("values of the wrong type are refused") {
  CHECK_THAT(testing::parse_refusal("O: {tile: 64}\n"), Contains("tile: '64', wanted is a map of axes to integers"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 0x40}}\n"), Contains("i: '0x40', wanted is an integer"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 064}}\n"), Contains("i: '064', wanted is an integer"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 99999999999999999999}}\n"), Contains("wanted is an integer"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: \"64\"}}\n"), Contains("i: the text \"64\", wanted is an integer"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: i.o}\n"),
             Contains("gpu_blocks: 'i.o', wanted is a list of loops"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: [[i.o]]}\n"),
             Contains("gpu_blocks: a list, wanted is a list of loops"));
  CHECK_THAT(testing::parse_refusal("P: {compute_root: yes}\n"), Contains("compute_root: 'yes', wanted is true"));
  CHECK_THAT(testing::parse_refusal("P: {compute_at: [j.o]}\n"),
             Contains("compute_at: a list, wanted is the name of a loop"));
  CHECK_THAT(testing::parse_refusal("P: j.o\n"),
             Contains("'P' is no key of the top level, and 'j.o' is no map of directives"));
  CHECK_THAT(testing::parse_refusal("bound: 3\n"), Contains("bound: '3', wanted is a map of extents to integers"));
  CHECK_THAT(testing::parse_refusal("target: [sm_80]\n"), Contains("target: a list, wanted is a target"));
}

TEST_CASE("values out of range are refused with the range") {
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 0}}\n"), Contains("tile of O: i is 0, allowed are 1 to 1024"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 1025}}\n"), Contains("tile of O: i is 1025, allowed are 1 to 1024"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: -9223372036854775808}}\n"), Contains("allowed are 1 to 1024"));
  CHECK_THAT(testing::parse_refusal("O: {threads: [0, 16]}\n"),
             Contains("threads of O: rows is 0, allowed are 1 to 1024"));
  CHECK_THAT(testing::parse_refusal("O: {threads: [1, 2, 3]}\n"),
             Contains("threads of O: 3 numbers, wanted are two integers"));
  CHECK_THAT(testing::parse_refusal("K: {ring_buffer: 0}\n"), Contains("ring_buffer of K: 0, allowed are 1 to 8"));
  CHECK_THAT(testing::parse_refusal("K: {ring_buffer: 9}\n"), Contains("ring_buffer of K: 9, allowed are 1 to 8"));
  CHECK_THAT(testing::parse_refusal("K: {vectorize: 3}\n"), Contains("vectorize of K: 3, which is no power of two"));
  CHECK_THAT(testing::parse_refusal("S: {unroll: {d: 65}}\n"), Contains("unroll of S: d is 65, allowed are 1 to 64"));
  CHECK_THAT(testing::parse_refusal("S: {align_storage: {d: 1}}\n"),
             Contains("align_storage of S: d is 1, allowed are 2 to 4096"));
  CHECK_THAT(testing::parse_refusal("bound: {Sk: 0}\n"), Contains("bound: Sk is 0, allowed are 1 to"));
  CHECK_THAT(testing::parse_refusal("K: {store_in: sharde}\n"),
             Contains("sharde is no place for a tile") && Contains("did you mean shared?"));
  CHECK_THAT(testing::parse_refusal("P: {compute_root: false}\n"),
             Contains("compute_root of P: false would have no effect"));
}

TEST_CASE("what is empty or said twice is refused") {
  CHECK_THAT(testing::parse_refusal(""), Contains("the file is empty"));
  CHECK_THAT(testing::parse_refusal("# nothing\n"), Contains("the file is empty"));
  CHECK_THAT(testing::parse_refusal("- O\n"), Contains("a list, wanted is a schedule"));
  CHECK_THAT(testing::parse_refusal("O: {}\n"), Contains("O has no directive: it would have no effect"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {}}\n"), Contains("tile of O: empty: it would have no effect"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: []}\n"), Contains("gpu_blocks of O: empty"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: [h, h]}\n"), Contains("gpu_blocks of O: h occurs twice"));
  CHECK_THAT(testing::parse_refusal("bound: {}\n"), Contains("bound: empty"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 1}}\nO: {tile: {i: 2}}\n"),
             Contains("s.yaml:2:1: error: 'O' is given twice"));
}

TEST_CASE("S02: one axis is split once: a second factor for it, or for its inner loop, is refused") {
  CHECK_THAT(testing::parse_refusal("O: {tile: {j: 2, j: 4}}\n"), Contains("s.yaml:1:18: error: 'j' is given twice"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 128, i.i: 48}}\n"), Contains("tile of O: i.i is not a name"));
}

TEST_CASE("names are identifiers: quotes, newlines and code do not get in") {
  CHECK_THAT(testing::parse_refusal("'O\"; system(\"x\")': {tile: {i: 1}}\n"), Contains("is not a name"));
  CHECK_THAT(testing::parse_refusal("\"a\\nb\": {tile: {i: 1}}\n"), Contains("a?b is not a name"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: ['i.o; x']}\n"), Contains("is not a loop"));
  CHECK_THAT(testing::parse_refusal("O: {gpu_blocks: [i.o.o]}\n"), Contains("i.o.o is not a loop"));
  CHECK_THAT(testing::parse_refusal("__device__: {tile: {i: 1}}\n"), Contains("which C++ reserves"));
  CHECK_THAT(testing::parse_refusal("'Null': {tile: {i: 1}}\n"), Contains("is an empty value in YAML"));
  CHECK_THAT(testing::parse_refusal(std::string(65, 'a') + ": {tile: {i: 1}}\n"), Contains("a name has at most 64"));
}

TEST_CASE("a key of schedules names no definition, from the C++ API either") {
  const Schedule schedule = ScheduleBuilder("sm_80")
                                .place(PlacementBuilder("bound").tile({{"i", 64}}))
                                .place(PlacementBuilder("tile").tile({{"i", 64}}))
                                .build();
  CHECK_THROWS_WITH(
      check_legal(schedule, testing::example_algorithm("attention"), *find_target("sm_80"), {}),
      Contains("bound is a key of schedules and can't name a definition") && Contains("tile is a key of schedules"));
}

TEST_CASE("text that is no YAML, or more than a schedule needs, is refused") {
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 64}\n"), Contains("not YAML"));
  CHECK_THAT(testing::parse_refusal("O: &a {tile: {i: 64}}\nP: *a\n"),
             Contains("s.yaml:1:4: error: anchors and aliases are not read"));
  CHECK_THAT(testing::parse_refusal("O: !!map {tile: {i: 64}}\n"), Contains("tags are not read"));
  CHECK_THAT(testing::parse_refusal("O: {tile: {i: 1}}\n---\nO: {tile: {i: 1}}\n"), Contains("more than one document"));
  CHECK_THAT(testing::parse_refusal("O: " + std::string(100, '[') + std::string(100, ']') + "\n"),
             Contains("nest deeper than 16"));
  CHECK_THAT(testing::parse_refusal(std::string(100000, '[')), Contains("nest deeper than 16"));
  CHECK_THAT(testing::parse_refusal(std::string(std::size_t{1} << 21, ' ')),
             Contains("2097152 bytes, the limit is 1048576"));
  CHECK_THAT(testing::parse_refusal(std::string("O: \0 {}", 7)), Contains("control character"));
}

TEST_CASE("a file of very many names, loops or numbers is refused, and briefly") {
  std::string many;
  for (int n = 0; n < 1000; ++n) many += "N" + std::to_string(n) + ": {tile: {i: 1}}\n";
  CHECK_THAT(testing::parse_refusal(many), Contains("1000 names, at most 64 are allowed"));
  std::string loops;
  for (int n = 0; n < 1000; ++n) loops += (n == 0 ? "a" : ", a") + std::to_string(n);
  const std::string message = testing::parse_refusal("O: {gpu_blocks: [" + loops + "]}\n");
  CHECK_THAT(message, Contains("1000 entries, at most 64 are allowed"));
  CHECK(message.size() < 1000);
}

}  // namespace
}  // namespace astatide
