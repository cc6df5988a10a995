#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

tile::Program relaxing_program(tile::Block body) {
  return one_kernel(
      {in_registers("m", {{"i", 4}}), in_registers("l", {{"i", 4}}), in_registers("c", {{"i", 4}}),
       in_registers("t", {{"i", 4}}), in_registers("S", {{"i", 4}, {"j", 4}}), in_registers("P", {{"i", 4}, {"j", 4}}),
       in_shared("Q", {{"i", 4}, {"d", 4}}), in_shared("K", {{"j", 4}, {"d", 4}})},
      std::move(body));
}

tile::Stmt slack_advance(bool optimistic) {
  tile::Advance out;
  out.updates = {{"m", Reduction::max, "c"}};
  out.moving = {{"l", parse_expr("l * exp(m - m_new)", {})}};
  out.slack = tile::Advance::Slack{parse_expr("m_new - m", {}), 3, {}, 6};
  if (optimistic) out.slack->witnesses = {"t"};
  return statement(out);
}

tile::Block online_step(bool optimistic) {
  return {mma("S", "Q", "K"),        map("S", "S * 2"),      row_reduce("c", Reduction::max, "S"),
          slack_advance(optimistic), map("P", "exp(S - m)"), row_reduce("t", Reduction::sum, "P"),
          map("l", "l + t")};
}

std::string relaxed(tile::Block body) { return body_after("relax_rescale", relaxing_program(std::move(body))); }

}  // namespace

TEST_CASE("a lazy advance is a vote and the moves under its flag") {
  CHECK(relaxed(online_step(false)) == R"(mma S = Q * K
map S = S * 2
row_reduce c = max S
vote moved = any m == -inf or not max(m, c) - m <= 3.0
if moved uniform warp
  map m_new = max(m, c)
  map l = l * exp(m - m_new)
  map m = m_new
map P = exp(S - m)
row_reduce t = sum P
map l = l + t
)");
}

TEST_CASE("an optimistic advance takes the maximum only where the sum of the tile is too large") {
  CHECK(relaxed(online_step(true)) == R"(mma S = Q * K
map S = S * 2
map P = exp(S - m)
row_reduce t = sum P
vote moved = any m == -inf or not t <= 64.0
if moved uniform warp cold
  mma S = Q * K
  map S = S * 2
  row_reduce c = max S
  map m_new = max(m, c)
  map l = l * exp(m - m_new)
  map m = m_new
  map P = exp(S - m)
  row_reduce t = sum P
map l = l + t
)");
}

TEST_CASE("a tile with absent elements is not tried") {
  tile::Block tried = online_step(true), masked = online_step(true);
  std::get<tile::Map>(masked[1].node).absent = -1;
  const std::string text = relaxed({loop("j_o", 0, 4, masked), loop("j_o", 4, 8, tried)});
  CHECK(text.find("cold") > text.find("for j_o in 4"));
  CHECK(relaxed(masked).find("cold") == std::string::npos);
}

TEST_CASE("a statement that the sums have to pass goes with them") {
  tile::Block body = online_step(true);
  // It reads what the map of weights overwrites.
  body.insert(body.begin() + 4, map("l", "l + c"));
  body.insert(body.begin() + 5, map("S", "S + l"));
  CHECK_THROWS_WITH(relaxed(body),
                    Catch::Contains("a tile would be computed again from l, which computing it has changed"));
}

}  // namespace astatide::testing
