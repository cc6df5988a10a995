#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Block;

std::string forwarded_text(Block body) {
  const std::vector<tile::Dim> scores = {{"i", 4}, {"j", 4}};
  tile::Program program = one_kernel(
      {in_registers("m", {{"i", 4}}), in_registers("l", {{"i", 4}}), in_registers("S", scores),
       in_registers("P", scores), in_shared("Q", {{"i", 4}, {"d", 4}}), in_shared("K", {{"j", 4}, {"d", 4}})},
      std::move(body));
  return body_after("forward_maps", program);
}

}  // namespace

TEST_CASE("a map that one other map alone reads is written into that one") {
  CHECK(forwarded_text({loop("j_o", 0, "n",
                             {mma("S", "Q", "K"), map("S", "S * 2"), map("P", "exp(S - m)"),
                              row_reduce("l", Reduction::sum, "P", true)})}) == R"(for j_o in 0 .. n serial
  mma S = Q * K
  map P = exp(S * 2 - m)
  row_reduce l sum= sum P
)");
}

TEST_CASE("a map with another reader stays: a reduction, a branch, the next iteration, what stands behind") {
  const std::string kept = "map S = S * 2";
  const auto weights = map("P", "exp(S - m)");
  const auto contains = [&](Block body) { return forwarded_text(std::move(body)).find(kept) != std::string::npos; };
  CHECK(contains({mma("S", "Q", "K"), map("S", "S * 2"), row_reduce("m", Reduction::max, "S"), weights}));
  CHECK(contains(
      {mma("S", "Q", "K"), map("S", "S * 2"), weights, when("0 < n", {row_reduce("m", Reduction::max, "S")})}));
  CHECK(contains({loop("j_o", 0, "n", {row_reduce("m", Reduction::max, "S"), map("S", "S * 2"), weights})}));
  CHECK(contains({when("0 < n", {map("S", "S * 2"), weights}), row_reduce("m", Reduction::max, "S")}));
}

TEST_CASE("a branch that makes the tile anew does not read it") {
  CHECK(forwarded_text({mma("S", "Q", "K"), map("S", "S * 2"), map("P", "exp(S - m)"),
                        when("0 < n", {mma("S", "Q", "K"), row_reduce("m", Reduction::max, "S")})}) ==
        R"(mma S = Q * K
map P = exp(S * 2 - m)
if 0 < n uniform block
  mma S = Q * K
  row_reduce m = max S
)");
}

TEST_CASE("a map stays where something between the two changes what it reads, or it has absent elements") {
  CHECK(forwarded_text({mma("S", "Q", "K"), map("S", "S * m"), map("m", "l"), map("P", "exp(S - m)")}).find("S * m") <
        forwarded_text({mma("S", "Q", "K"), map("S", "S * m"), map("m", "l"), map("P", "exp(S - m)")}).find("m = l"));
  CHECK(forwarded_text({mma("S", "Q", "K"), map_where("S", "S * 2", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "0")}),
                        map("P", "exp(S - m)")})
            .find("map S = S * 2 where") != std::string::npos);
}

}  // namespace astatide::testing
