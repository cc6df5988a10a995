#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

tile::Program sharing_program(tile::Block body) {
  return one_kernel({in_registers("m", {{"i", 4}}), in_registers("l", {{"i", 4}}), in_registers("t", {{"i", 4}}),
                     in_registers("S", {{"i", 4}, {"j", 4}})},
                    std::move(body));
}

std::string closed(tile::Block body) { return body_after("close_shares", sharing_program(std::move(body))); }
std::string sharing_text(tile::Block body) { return text_of_body(sharing_program(std::move(body))); }

}  // namespace

TEST_CASE("a share is made whole in front of the first statement that reads it") {
  CHECK(closed({row_reduce("t", Reduction::max, "S"), map("m", "max(m, t)"), map("l", "t")}) ==
        sharing_text({row_reduce("t", Reduction::max, "S"), all_reduce("t", Reduction::max), map("m", "max(m, t)"),
                      map("l", "t")}));
}

TEST_CASE("a sum that a loop adds to and scales is made whole once, behind the loop") {
  const tile::Block body = {fill("l", 0),
                            loop("j_o", 0, "Sk", {map("l", "l * m"), row_reduce("l", Reduction::sum, "S", true)}),
                            map("m", "1 / l")};
  CHECK(closed(body) == sharing_text({body[0], body[1], all_reduce("l", Reduction::sum), body[2]}));
}

TEST_CASE("a loop that reads the share of an earlier loop has it made whole in front of it") {
  const tile::Block body = {fill("m", 0), loop("j_o", 0, "Sk", {row_reduce("m", Reduction::max, "S", true)}),
                            loop("j_o", 0, "Sk", {map("S", "S - m")})};
  CHECK(closed(body) == sharing_text({body[0], body[1], all_reduce("m", Reduction::max), body[2]}));
}

TEST_CASE("a share that is added to a share needs no lane of its own") {
  const tile::Block body = {
      fill("l", 0),
      loop("j_o", 0, "Sk",
           {map("l", "l * m"), row_reduce("t", Reduction::sum, "S"), vote("f", "t > 3"), map("l", "l + t")}),
      map("m", "1 / l")};
  CHECK(closed(body) == sharing_text({body[0], body[1], all_reduce("l", Reduction::sum), body[2]}));
}

TEST_CASE("a share that is added to what the loop reads whole is made whole") {
  const tile::Block body = {
      fill("l", 0), loop("j_o", 0, "Sk", {row_reduce("t", Reduction::sum, "S"), map("l", "l + t"), map("m", "m * l")})};
  CHECK(closed(body) ==
        sharing_text({body[0], loop("j_o", 0, "Sk",
                                    {row_reduce("t", Reduction::sum, "S"), all_reduce("t", Reduction::sum),
                                     map("l", "l + t"), map("m", "m * l")})}));
}

TEST_CASE("a share that is read whole under a condition alone is made whole there") {
  CHECK(closed({row_reduce("t", Reduction::max, "S"), vote("f", "t > 3"), when("f", {map("m", "max(m, t)")})}) ==
        sharing_text({row_reduce("t", Reduction::max, "S"), vote("f", "t > 3"),
                      when("f", {all_reduce("t", Reduction::max), map("m", "max(m, t)")})}));
  CHECK(closed({row_reduce("t", Reduction::max, "S"), when("f", {map("m", "max(m, t)")}), map("l", "t")}) ==
        sharing_text({row_reduce("t", Reduction::max, "S"), all_reduce("t", Reduction::max),
                      when("f", {map("m", "max(m, t)")}), map("l", "t")}));
}

TEST_CASE("a tile that is overwritten holds no share any more") {
  const tile::Block body = {row_reduce("t", Reduction::sum, "S"), fill("t", 0), map("m", "t")};
  CHECK(closed(body) == sharing_text(body));
}

TEST_CASE("a sum that is made whole inside the loop that adds to it is a fault") {
  CHECK_THROWS_AS(closed({fill("l", 0), row_reduce("l", Reduction::sum, "S", true),
                          loop("j_o", 0, "Sk", {row_reduce("l", Reduction::sum, "S", true), map("m", "1 / l")})}),
                  InternalError);
}

}  // namespace astatide::testing
