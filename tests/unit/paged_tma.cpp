// Keys and values in pages, copied by TMA: a box a page, as the tile program and the emitted text say it.

#include <catch2/catch.hpp>
#include <regex>

#include "api/astatide.h"
#include "compiler/cuda/emit.h"
#include "tests/support/messages.h"
#include "tests/support/paged_case.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

struct Texts {
  std::string program, source;
};

/// With tiles of so many keys.
Texts texts_of(std::int64_t page, const std::string& keys) {
  const std::string schedule = with(shipped_schedule("sm90/flash3"), "j: 128", "j: " + keys);
  const Case c = paged_case({page, {300}, 300, 3});
  const tile::Program program =
      compile(c.algorithm, parse_schedule(schedule, "s.yaml"), {*find_target("sm_90a"), c.extents, c.dtype});
  return {tile::print(program), cuda::emit(program).text};
}

}  // namespace

TEST_CASE("a tile of several pages is a box a page, up to the last that has a row of the item") {
  const Texts texts = texts_of(64, "128");
  CHECK(contains(texts.program,
                 "copy K_s <- K[page[b, j/64], h*Hkv/Hq, j%64, d] at j = j_o*128 < "
                 "(min(Sk, length[b])+63)/64*64, d = 0 < D via tma boxes 2"));
  // What stands behind the item's end in its last page becomes 0 in front of the sum over keys, and only there.
  CHECK(contains(texts.program, "acquire V_s at j = (j_o+1)*128 < min(Sk, length[b])"));
  CHECK_FALSE(contains(texts.program, "acquire K_s at"));
  CHECK(contains(texts.source, "int page_0[2];"));
  CHECK(contains(texts.source, "const int j = j_o * 128 + (box) * 64;"));
  CHECK(contains(texts.source, "/ 64) * page_stride_1) : -1;"));
  CHECK(contains(texts.source, ", page_0[box]);"));
}

TEST_CASE("tables of many pages are read a few at a time, and no box stands behind the tile") {
  const Texts even = texts_of(16, "128");
  CHECK(contains(even.program, "via tma boxes 8"));
  CHECK(contains(even.source, "for (int first = 0; first < 8; first += 2)"));
  CHECK_FALSE(contains(even.source, "first + box < 8"));
  // What all boxes have in common stands in front of their loop.
  CHECK(contains(even.source, "const int limit = floor_div(min(Sk, *(length + b * length_stride_0)) + 15, 16) * 16;"));
  CHECK(contains(even.source, "const int at_1 = static_cast<int>(static_cast<long long>(h) * Hkv / Hq);"));
  CHECK(contains(even.source, "page_0[box] = j < limit ? "));
  CHECK(contains(even.source, ", 0, at_1, page_0[box]);"));
  const Texts odd = texts_of(16, "80");
  CHECK(contains(odd.program, "via tma boxes 5"));
  CHECK(contains(odd.source, "if (first + box < 5) {"));
  CHECK(contains(odd.source, "page_0[box] = first + box < 5 && j < "));
}

TEST_CASE("a tile that is a part of a page is one box at its place there") {
  const Texts texts = texts_of(256, "128");
  CHECK_FALSE(contains(texts.program, " boxes "));
  CHECK(contains(texts.source, "j_o * 128 % 256"));
  // Equal lengths: the box is the page.
  CHECK_FALSE(contains(texts_of(128, "128").source, "% 128, static_cast<int>(static_cast<long long>(h)"));
}

TEST_CASE("what does not come in whole boxes is refused with the numbers and what would do") {
  const auto refusal = [](std::int64_t page, const std::string& from, const std::string& to) {
    const Case c = paged_case({page, {300}, 300, 3});
    try {
      compile(c.algorithm, parse_schedule(with(shipped_schedule("sm90/flash3"), from, to), "s.yaml"),
              {*find_target("sm_90a"), c.extents, c.dtype});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(
      refusal(64, "j: 128", "j: 96"),
      Contains("s.yaml:12:") &&
          Contains("copy of K: tma copies whole pages of K or parts of one, and 96 rows of a tile along j are no "
                   "whole number of pages of 64, nor pages of such tiles") &&
          Contains("note: tile: {j: 64} or another such number, or copy: cp_async, without warps"));
  CHECK_THAT(refusal(256, "j: 128", "j: 96"), Contains("note: tile: {j: 64} or another such number"));
  CHECK_THAT(refusal(4, "j: 128", "j: 128"),
             Contains("tma copies boxes of a multiple of 8 rows, and a page of K has 4") && Contains("copy: cp_async"));
  CHECK_THAT(refusal(1, "j: 128", "j: 128"), Contains("an index of K is an expression over them"));
  CHECK_THAT(refusal(64, "h, b], persistent", "h, b], cluster: 2, persistent"),
             Contains("cluster: tma copies for several blocks what is one box, and K lies in pages of 64 rows") &&
                 Contains("note: leave cluster out"));
  CHECK(refusal(64, "j: 128", "j: 128") == "accepted");
}

TEST_CASE("pages whose length is an extent are refused with the tile that a number would have to divide") {
  std::string text = print_algorithm(load_algorithm("paged"));
  for (const auto& [from, to] : {std::pair{"/ ?16", "/Page"},
                                 {"% ?16", "%Page"},
                                 {", 16, ", ", Page, "},
                                 {"Pages\\]", "Pages, Page]"},
                                 {"Pages: 70", "Pages: 70, Page: 16"}})
    text = std::regex_replace(text, std::regex(from), to);
  const Algorithm algorithm = parse_algorithm(text, "a.yaml");
  const std::map<std::string, std::int64_t> sizes{{"D", 64}, {"Dv", 64}};
  CHECK_THROWS_WITH(
      compile(algorithm, parse_schedule(shipped_schedule("sm90/flash3"), "s.yaml"),
              {*find_target("sm_90a"), sizes, ScalarType::bf16}),
      Catch::Contains(
          "s.yaml:12:44: error: copy of K: tma copies pages of a constant length that divides the 128 rows of "
          "a tile along j, or is a multiple of them, and those of K have the length Page, which a launch gives") &&
          Catch::Contains("note: a number such as 64 in place of Page in the algorithm: j/64 and j%64") &&
          Catch::Contains("note: copy: cp_async, without warps, takes any length"));
}

TEST_CASE("what no directive alone is the cause of is said where the tiles are") {
  const Algorithm algorithm = load_algorithm("t5");
  CHECK_THROWS_WITH(compile(algorithm, parse_schedule(shipped_schedule("simt/flash2"), "s.yaml"),
                            {*find_target("sm_80"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16}),
                    Catch::Contains("s.yaml:5:11: error: tiles of kernel t5 need 168960 bytes of shared memory"));
}

}  // namespace astatide::testing
