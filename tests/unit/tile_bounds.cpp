#include "compiler/tile/bounds.h"

#include <catch2/catch.hpp>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/names.h"

namespace astatide::testing {
namespace {

using tile::Bounds;

Expr index(const std::string& text) { return parse_expr(text, {}, true); }

std::string interval(const std::string& text, const std::map<std::string, Bounds>& ranges) {
  const auto bounds = tile::bounds_of(index(text), ranges);
  return bounds ? print_expr(bounds->low, {}, true) + " .. " + print_expr(bounds->high, {}, true) : "none";
}

const std::map<std::string, Bounds> kTile{{"r", {index("t*16"), index("t*16+15")}}};
const std::map<std::string, Bounds> kAll{{"r", {Expr(0), index("Hq/Hkv*Sq-1")}}};

}  // namespace

TEST_CASE("a quotient by a length is bounded by quotients of the ends") {
  CHECK(interval("r/4", kTile) == "t*16/4 .. (t*16+15)/4");
  CHECK(interval("r/(Hq/Hkv)+Sk", kTile) == "Sk+t*16/max(Hq/Hkv, 1) .. Sk+(t*16+15)/max(Hq/Hkv, 1)");
  CHECK(interval("r%G", kTile) == "0 .. max(G, 1)-1");
}

TEST_CASE("all rows that are fused of two axes have all places of both") {
  CHECK(interval("r/(Hq/Hkv)", kAll) == "0 .. Sq-1");
  CHECK(interval("r%(Hq/Hkv)", kAll) == "0 .. max(Hq/Hkv, 1)-1");
}

TEST_CASE("a divisor that may be negative or varies bounds nothing") {
  CHECK(interval("r/(Sk-Sq)", kTile) == "none");
  CHECK(interval("Sq/r", kTile) == "none");
  CHECK(interval("r%(Sk-Sq)", kTile) == "none");
}

TEST_CASE("bounds hold for all numbers") {
  for (const char* text : {"r/(Hq/Hkv)", "r/(Hq/Hkv)*3-r%(Hq/Hkv)", "r/Sq"})
    for (std::int64_t heads : {0, 1, 2, 6})
      for (std::int64_t queries : {1, 2, 5}) {
        INFO(text << " heads " << heads << " queries " << queries);
        std::map<std::string, std::int64_t> values{{"Hq", heads}, {"Hkv", 1}, {"Sq", queries}};
        const auto bounds = tile::bounds_of(index(text), kAll);
        REQUIRE(bounds);
        // Also where there is no row the ends are numbers.
        const std::int64_t low = evaluate_integer(bounds->low, values), high = evaluate_integer(bounds->high, values);
        for (std::int64_t r = 0; r < heads * queries; ++r) {
          values["r"] = r;
          const std::int64_t value = evaluate_integer(index(text), values);
          CHECK(low <= value);
          CHECK(value <= high);
        }
      }
}

TEST_CASE("what leaves out a place of a fused axis leaves out its rows") {
  const auto end = tile::end_along("r", index("r/(Hq/Hkv)-length+1"), {});
  REQUIRE(end);
  CHECK(print_expr(*end, {}, true) == "length*(Hq/Hkv)");
  CHECK(!tile::end_along("r", index("r/G+r%G-length"), {}));
  CHECK(!tile::end_along("r", index("r/(Sk-Sq)-length"), {}));
}

}  // namespace astatide::testing
