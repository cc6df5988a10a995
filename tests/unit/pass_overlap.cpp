#include <catch2/catch.hpp>

#include "compiler/support/diagnostic.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using Catch::Matchers::Contains;
using tile::Block;
using tile::Dim;

const std::vector<Dim> kRows = {{"i", 4}};

/// Small attention as it stands behind hoist_row_invariants.
tile::Program overlap_program(Block body, Fraction cover = {1, 2}) {
  const std::vector<Dim> scores = {{"i", 4}, {"j", 8}};
  tile::Program out =
      one_kernel({in_registers("m", kRows), in_registers("l", kRows), in_registers("t", kRows),
                  in_registers("f", kRows), in_registers("acc", {{"i", 4}, {"e", 4}}), in_registers("S", scores),
                  in_registers("P", scores), in_shared("P_s", scores), in_registers("T", scores)},
                 std::move(body));
  out.kernels[0].overlap = tile::Overlap{"S", cover, {}};
  return out;
}

tile::View q() { return view("Q[i,d]", {at("i", "i_o*4"), at("d", 0, "D")}); }
tile::View k() { return view("K[j,d]", {at("j", "j_o*8"), at("d", 0, "D")}); }
tile::View v() { return view("V[j,e]", {at("j", "j_o*8", "Sk"), at("e", 0, "E")}); }
tile::View v_whole() { return view("V[j,e]", {at("j", "j_o*8"), at("e", 0, "E")}); }

Block first() {
  return {mma("S", q(), k()),     row_reduce("t", Reduction::max, "S"), map("m", "t"),
          map("P", "exp(S - m)"), row_reduce("l", Reduction::sum, "P"), map("P_s", "P"),
          mma("acc", "P_s", v())};
}
Block next() {
  return {mma("S", q(), k()),     row_reduce("t", Reduction::max, "S"),
          map("f", "exp(m - t)"), map("acc", "acc * f"),
          map("l", "l * f"),      map("m", "t"),
          map("P", "exp(S - m)"), row_reduce("l", Reduction::sum, "P", true),
          map("P_s", "P"),        mma_add("acc", "P_s", v_whole())};
}

Block chain(Block general, Block other) {
  return {once("j_o", 0, std::move(general)), loop("j_o", 1, "n", std::move(other))};
}

std::string overlapped(Block body, Fraction cover = {1, 2}) {
  return body_after("overlap", overlap_program(std::move(body), cover));
}

const std::string kFirst = R"(for j_o in 0 .. 1 once
  mma S = (Q[i,d] at i = i_o*4, d = 0 < D) * (K[j,d] at j = j_o*8, d = 0 < D) -> ahead
  await ahead
  row_reduce t = max S
  map m = t
  map P = exp(S - m)
  row_reduce l = sum P
  map P_s = P
  fill f = 1
  fill acc = nan
)";
const std::string kLast = R"(for j_o in n .. n+1 once  # last
  map acc = acc * f
  if j_o - 1 == 0 uniform block
    fill acc = 0
  mma acc += P_s * (V[j,e] at j = (j_o-1)*8 < Sk, e = 0 < E) -> delayed
  await delayed
)";
/// In front of the weights.
const std::string kBegin = R"(for j_o in 1 .. n serial
  mma S = (Q[i,d] at i = i_o*4, d = 0 < D) * (K[j,d] at j = j_o*8, d = 0 < D) -> ahead
  map acc = acc * f
  if j_o - 1 == 0 uniform block
    fill acc = 0
  mma acc += P_s * (V[j,e] at j = (j_o-1)*8 < Sk, e = 0 < E) -> delayed
  await ahead
  row_reduce t = max S
  map f = exp(m - t)
  map l = l * f
  map m = t
)";

}  // namespace

TEST_CASE("the last product runs behind the next tile's first, and half of the weights stand before its await") {
  CHECK(overlapped(chain(first(), next())) == kFirst + kBegin + R"(  map P cols 0..4 = exp(S - m)
  row_reduce l sum= sum P cols 0..4
  await delayed
  map P cols 4..8 = exp(S - m)
  row_reduce l sum= sum P cols 4..8
  map P_s = P
)" + kLast);
}

TEST_CASE("none of the weights, or all of them, stand before the await") {
  CHECK(overlapped(chain(first(), next()), {0, 1}) == kFirst + kBegin + R"(  await delayed
  map P = exp(S - m)
  row_reduce l sum= sum P
  map P_s = P
)" + kLast);
  CHECK(overlapped(chain(first(), next()), {1, 1}) == kFirst + kBegin + R"(  map P = exp(S - m)
  row_reduce l sum= sum P
  await delayed
  map P_s = P
)" + kLast);
}

TEST_CASE("a reduction that starts anew adds the second part to the first") {
  Block body = next();
  body[7] = row_reduce("t", Reduction::sum, "P");
  body.insert(body.begin() + 8, map("l", "l + t"));
  CHECK_THAT(overlapped(chain(first(), body)), Contains("  row_reduce t = sum P cols 0..4\n  await delayed\n") &&
                                                   Contains("  row_reduce t sum= sum P cols 4..8\n  map l = l + t\n"));
}

TEST_CASE("weights that the product reads themselves wait aside") {
  const auto direct = [](bool add) {
    return Block{mma("S", q(), k()), map("P_s", "exp(S)"), add ? mma_add("acc", "P_s", v()) : mma("acc", "P_s", v())};
  };
  CHECK_THAT(overlapped(chain(direct(false), direct(true))), Contains(R"(  await ahead
  map P_s_next cols 0..4 = exp(S)
  await delayed
  map P_s_next cols 4..8 = exp(S)
  map P_s = P_s_next
)"));
}

TEST_CASE("a descending chain delays the tile above") {
  Block loops = chain(first(), next());
  loops[0] = once("j_o", "n - 1", first());
  loops[1] = loop("j_o", 0, "n - 1", next());
  for (tile::Stmt& stmt : loops) std::get<tile::For>(stmt.node).descending = true;
  CHECK_THAT(overlapped(loops), Contains("for j_o in 0 .. n-1 descending serial") &&
                                    Contains("  if j_o + 1 == n - 1 uniform block\n    fill acc = 0\n") &&
                                    Contains("  mma acc += P_s * (V[j,e] at j = (j_o+1)*8 < Sk") &&
                                    Contains("for j_o in -1 .. 0 descending once  # last"));
}

TEST_CASE("a move under a flag is delayed with a flag that is down for the first tile") {
  Block body = next();
  body[2] = vote("moved", "t > m");
  body[3] = when("moved", {map("f", "exp(m - t)"), map("m", "t")});
  body[4] = when("moved", {map("acc", "acc * f")});
  body.erase(body.begin() + 5);
  const std::string text = overlapped(chain(first(), body));
  CHECK_THAT(text, Contains("  fill f = 1\n  vote moved = any 1.0 < f\n  fill acc = nan\n"));
  CHECK_THAT(text, Contains("-> ahead\n  if moved uniform block\n    map acc = acc * f\n  if j_o - 1 == 0 uniform"));
}

TEST_CASE("a move that only some loops of a chain could delay stays behind the await") {
  Block without = next();
  without.erase(without.begin() + 3);
  Block loops = chain(first(), next());
  loops.push_back(loop("j_o", "n", "n_2", without));
  const std::string text = overlapped(loops, {0, 1});
  CHECK_THAT(text, Contains("  map f = exp(m - t)\n  await delayed\n  map acc = acc * f\n  map l = l * f\n"));
  CHECK_THAT(text, Contains("-> ahead\n  if j_o - 1 == 0 uniform block\n    fill acc = 0\n  mma acc += P_s"));
  CHECK_THROWS_WITH(overlapped(loops),
                    Contains("overlap of S: cover 1/2: `map acc = acc * f` of the next tile reads acc, "
                             "which `mma acc += P_s"));
}

TEST_CASE("refused: one product, or three") {
  Block one = next();
  one.pop_back();
  CHECK_THROWS_WITH(overlapped(chain(one, one)),
                    Contains("overlap of S: the loop over j_o holds 1 product, and two are overlapped"));
  Block three = next();
  three.insert(three.begin() + 1, mma("T", q(), k()));
  CHECK_THROWS_WITH(overlapped(chain(three, three)),
                    Contains("overlap of S: the loop over j_o holds 3 products, and two are overlapped"));
}

TEST_CASE("refused: the next tile's product reads what the delayed one writes") {
  const auto cyclic = [] { return Block{mma("T", "acc", v()), map("P", "exp(T)"), mma_add("acc", "P", v())}; };
  tile::Program cycle = overlap_program(chain(cyclic(), cyclic()));
  cycle.kernels[0].overlap->product = "T";
  CHECK_THROWS_WITH(body_after("overlap", cycle), Contains("overlap of T: `mma T = acc * (V[j,e]") &&
                                                      Contains("` of the next tile reads acc, which `mma"));
}

TEST_CASE("refused: something in the iteration waits for the product that would be delayed") {
  Block stores = next();
  stores.push_back(map("T", "acc"));
  CHECK_THROWS_WITH(overlapped(chain(stores, stores)),
                    Contains("overlap of S: `map T = acc` of the same tile reads acc, which `mma acc +=") &&
                        Contains("so it can't run later"));
}

TEST_CASE("refused: a loop that runs once") {
  CHECK_THROWS_WITH(overlapped({once("j_o", 0, first())}),
                    Contains("overlap of S: the loop over j_o runs once, there is no next tile"));
}

TEST_CASE("refused: what the first tile lacks has no neutral number") {
  Block odd = next();
  odd[3] = map("acc", "exp(acc)");
  CHECK_THROWS_WITH(overlapped(chain(first(), odd)),
                    Contains("overlap of S: the first tile does without `map acc = exp(acc)"));
}

TEST_CASE("refused: loops whose delayed products differ") {
  Block other = next();
  other.back() = mma_add("acc", "P_s", view("W[j,e]", {at("j", "j_o*8"), at("e", 0, "E")}));
  Block loops = chain(first(), next());
  loops.push_back(loop("j_o", "n", "n_2", other));
  CHECK_THROWS_WITH(overlapped(loops), Contains("overlap of S: the loops over j_o delay different statements"));
}

TEST_CASE("refused: a cover of no whole number of columns, or without a map to cover") {
  CHECK_THROWS_WITH(overlapped(chain(first(), next()), {1, 3}),
                    Contains("overlap of S: cover 1/3 of the 8 columns of P is no whole number"));
  const auto no_map = [](bool add) {
    return Block{mma("S", q(), k()), add ? mma_add("acc", "P_s", v()) : mma("acc", "P_s", v())};
  };
  CHECK_THROWS_WITH(overlapped(chain(no_map(false), no_map(true))),
                    Contains("overlap of S: cover 1/2: no map in the loop computes what the product of acc reads"));
}

}  // namespace astatide::testing
