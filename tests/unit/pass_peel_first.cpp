#include <catch2/catch.hpp>

#include "compiler/support/diagnostic.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Block;

tile::Program peel_program(Block body) {
  tile::Program out = one_kernel({in_registers("S", {{"i", 4}, {"j", 4}}), in_registers("m", {{"i", 4}}),
                                  in_shared("Q", {{"i", 4}, {"d", 4}}), in_shared("K", {{"j", 4}, {"d", 4}})},
                                 std::move(body));
  out.extents = {"n", "from", "full", "end"};
  out.kernels[0].overlap = tile::Overlap{"S", {1, 2}, {}};
  return out;
}

Block full() { return {mma("S", "Q", "K"), row_reduce("m", Reduction::max, "S")}; }
Block partial() {
  return {mma("S", "Q", "K"), map_where("S", "S", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "j_o*4", "Sk")}),
          row_reduce("m", Reduction::max, "S")};
}

tile::Stmt descending(tile::Stmt loop) {
  std::get<tile::For>(loop.node).descending = true;
  return loop;
}

std::string peeled(Block body) { return body_after("peel_first", peel_program(std::move(body))); }

}  // namespace

TEST_CASE("the first iteration runs in any case, the others share out what is left") {
  CHECK(peeled({loop("j_o", 0, "(n + 3)/4", full())}) == R"(let j_o_end = max((n+3)/4, 1)
for j_o in 0 .. 1 once  # first
  mma S = Q * K
  row_reduce m = max S
for j_o in 1 .. j_o_end serial
  mma S = Q * K
  row_reduce m = max S
)");
}

TEST_CASE("the first tile of a chain tests what any of its loops tests, once for the tile where one tests nothing") {
  CHECK(peeled({loop("j_o", "from", "full", full()), loop("j_o", "full", "end", partial())}) ==
        R"(let full_2 = max(full, from+1)
let end_2 = max(end, from+1)
for j_o in from .. from+1 once  # first
  mma S = Q * K
  if full <= from uniform block
    map S = S where j <= i absent -1 at i = i_o*4, j = j_o*4 < Sk
  row_reduce m = max S
for j_o in from+1 .. full_2 serial
  mma S = Q * K
  row_reduce m = max S
for j_o in full_2 .. end_2 serial
  mma S = Q * K
  map S = S where j <= i absent -1 at i = i_o*4, j = j_o*4 < Sk
  row_reduce m = max S
)");
}

TEST_CASE("a descending chain begins with the tile at its end, or with that at its begin where it is empty") {
  CHECK(peeled({descending(loop("j_o", "full", "end", partial())), descending(loop("j_o", 0, "full", full()))}) ==
        R"(let j_o_first = max(0, end-1)
let full_2 = min(full, j_o_first)
for j_o in j_o_first .. j_o_first+1 descending once  # first
  mma S = Q * K
  if full <= j_o_first uniform block
    map S = S where j <= i absent -1 at i = i_o*4, j = j_o*4 < Sk
  row_reduce m = max S
for j_o in full_2 .. j_o_first descending serial
  mma S = Q * K
  map S = S where j <= i absent -1 at i = i_o*4, j = j_o*4 < Sk
  row_reduce m = max S
for j_o in 0 .. full_2 descending serial
  mma S = Q * K
  row_reduce m = max S
)");
}

TEST_CASE("loops without the product, and kernels that overlap nothing, stay as they are") {
  const Block other = {loop("j_o", 0, "n", {row_reduce("m", Reduction::max, "S")})};
  CHECK(peeled(other) == text_of_body(peel_program(other)));
  tile::Program without = peel_program({loop("j_o", 0, "n", full())});
  without.kernels[0].overlap.reset();
  CHECK(body_after("peel_first", without) == text_of_body(without));
}

TEST_CASE("loops of which each tests something else have no first tile") {
  const Block other = {mma("S", "Q", "K"), map_where("S", "S", {"i <= j"}, -1, {at("i", "i_o*4"), at("j", "j_o*4")}),
                       row_reduce("m", Reduction::max, "S")};
  CHECK_THROWS_WITH(peeled({loop("j_o", 0, "a", partial()), loop("j_o", "a", "b", other)}),
                    Catch::Matchers::Contains("overlap of S: the loops over j_o test different things"));
}

}  // namespace astatide::testing
