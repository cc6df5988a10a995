// Texts that are no space: what is wrong, and where.
#include <catch2/catch.hpp>

#include "compiler/tune/space.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using Catch::Contains;

namespace {

std::string space_refusal(const std::string& text) {
  try {
    parse_space(text, "s.yaml");
    return "no error";
  } catch (const UserError& error) {
    std::string out;
    for (const Diagnostic& problem : error.diagnostics()) out += (out.empty() ? "" : "\n") + format_diagnostic(problem);
    return out;
  }
}

}  // namespace

TEST_CASE("a range that is none is shown as it is written") {
  CHECK(space_refusal("O: {tile: {i: range(64, 32, 16), j: range(16, 64, 16)}}\n") ==
        R"(s.yaml:1:15: error: O.tile.i: 'range(64, 32, 16)' is no range
    O: {tile: {i: range(64, 32, 16), j: range(16, 64, 16)}}
                  ^
note: range(first, last, step), such as range(32, 256, 16); last is one of the values where a step hits it)");
  CHECK_THAT(space_refusal("O: {tile: {i: range(64, 128)}}\n"), Contains("'range(64, 128)' is no range"));
  CHECK_THAT(space_refusal("O: {tile: {i: range(1, 9, 0)}}\n"), Contains("is no range"));
  CHECK_THAT(space_refusal("O: {tile: {i: range(1, x, 1)}}\n"), Contains("is no range"));
  CHECK_THAT(space_refusal("O: {tile: {i: range(1, 99999, 1)}}\n"), Contains("has 99999 values, the limit is 4096"));
}

TEST_CASE("an alternative that is no value of its directive is an error at its place") {
  CHECK(space_refusal("O: {tile: {i: [64, wide], j: 64}}\nK: {ring_bufer: [1, 2]}\n") ==
        R"(s.yaml:1:20: error: i: 'wide', wanted is an integer
    O: {tile: {i: [64, wide], j: 64}}
                       ^
s.yaml:2:5: error: unknown directive 'ring_bufer' of K
    K: {ring_bufer: [1, 2]}
        ^
note: did you mean ring_buffer?)");
  CHECK_THAT(space_refusal("O: {tile: {i: [64, 64]}}\n"), Contains("1:20: error: O.tile.i: 64 is given twice"));
  CHECK_THAT(space_refusal("K: {ring_buffer: [2, 99999]}\n"), Contains("1:22: error: ring_buffer of K"));
}

TEST_CASE("a condition speaks of values that the space has") {
  CHECK(space_refusal("O: {tile: {i: [64, 128], j: 64}}\nwhere: tile.i * tile.k <= 8192\n") ==
        R"(s.yaml:2:17: error: where: no value of the space is at tile.k
    where: tile.i * tile.k <= 8192
                    ^
note: did you mean tile.i?)");
  CHECK_THAT(
      space_refusal("K: {ring_buffer: [1, 2]}\nV: {ring_buffer: [1, 2]}\nwhere: ring_buffer < 2\n"),
      Contains("2:8: error") || Contains("3:8: error: where: ring_buffer may be K.ring_buffer or V.ring_buffer"));
  CHECK_THAT(space_refusal("K: {ring_buffer: [1, 2]}\nwhere: K.ring_buffer && 1\n"), Contains("write and"));
  CHECK_THAT(space_refusal("K: {ring_buffer: [1, 2]}\nwhere: {a: 1}\n"),
             Contains("2:8: error: where: a map, wanted is a condition"));
}

TEST_CASE("a choice has variants that are parts of schedules, and no value has two places") {
  CHECK_THAT(space_refusal("choose: [a, b]\n"), Contains("1:9: error: choose: a list, wanted are names with variants"));
  CHECK_THAT(space_refusal("choose: {ring: 3}\n"), Contains("choose ring: '3', wanted are variants"));
  CHECK_THAT(space_refusal("choose: {ring: {two: 3}}\n"),
             Contains("variant two of ring: '3', wanted is a part of a schedule"));
  CHECK(space_refusal("K: {ring_buffer: 2}\nchoose: {ring: {one: {}, three: {K: {ring_buffer: 3}}}}\n") ==
        R"(s.yaml:2:26: error: variant three of ring says K.ring_buffer, which the schedule says, too
    choose: {ring: {one: {}, three: {K: {ring_buffer: 3}}}}
                             ^
note: a value has one place: leave it out there, or add it to these variants)");
  CHECK_THAT(space_refusal("choose: {a: {x: {K: {ring_buffer: 3}}, z: {}}, b: {y: {K: {ring_buffer: 2}}, w: {}}}\n"),
             Contains("which choose a says, too"));
  CHECK_THAT(space_refusal("choose: {a: {x: {K: {ring_bufer: 3}}, z: {}}}\n"), Contains("did you mean ring_buffer?"));
  // Alternatives stand outside of variants.
  CHECK_THAT(space_refusal("choose: {a: {x: {K: {ring_buffer: [2, 3]}}, z: {}}}\n"),
             Contains("ring_buffer: a list, wanted is an integer"));
}

TEST_CASE("a space without a choice, or of too many points, is refused with what to do") {
  CHECK_THAT(space_refusal("K: {ring_buffer: 2}\n"), Contains("the space has one point"));
  CHECK_THAT(space_refusal("just words\n"), Contains("wanted is a space"));
  std::string text;
  for (const char* name : {"K", "V", "Q", "S"}) text += std::string(name) + ": {unroll: {i: range(1, 4000, 1)}}\n";
  CHECK_THAT(space_refusal(text), Contains("the space has more than 2^40 points"));
}
