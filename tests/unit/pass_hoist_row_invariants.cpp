#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

tile::Program hoisting_program(tile::Block body) {
  tile::Program out = one_kernel({in_registers("m", {{"i", 4}}), in_registers("l", {{"i", 4}}),
                                  in_registers("row", {{"i", 4}}), in_registers("row_2", {{"i", 4}}),
                                  in_registers("S", {{"i", 4}, {"j", 4}}), in_registers("P", {{"i", 4}, {"j", 4}})},
                                 std::move(body));
  out.scalars = {"scale"};
  return out;
}

/// The pass declares its rows itself: the same kernel without them.
std::string hoisted(tile::Block body) {
  tile::Program in = hoisting_program(std::move(body));
  std::erase_if(in.kernels[0].mems, [](const tile::Mem& mem) { return mem.name.starts_with("row"); });
  return body_after("hoist_row_invariants", in);
}
std::string hoisting_text(tile::Block body) { return text_of_body(hoisting_program(std::move(body))); }

}  // namespace

TEST_CASE("what is constant in a row is computed once a row, as large a part as there is") {
  CHECK(hoisted({map("P", "exp(S - (m + log(l)))")}) ==
        hoisting_text({map("row", "m + log(l)"), map("P", "exp(S - row)")}));
}

TEST_CASE("a scalar, a tile's name and a coordinate alone are not hoisted") {
  CHECK(hoisted({map("P", "S * scale * 2")}) == hoisting_text({map("P", "S * scale * 2")}));
  CHECK(hoisted({map("P", "S * m")}) == hoisting_text({map("P", "S * m")}));
  CHECK(hoisted({map("P", "S + m * j", {at("j", 0)})}) == hoisting_text({map("P", "S + m * j", {at("j", 0)})}));
}

TEST_CASE("a later map of rows uses what was hoisted, until its operands change") {
  CHECK(hoisted({map("P", "P * exp(m)"), map("l", "l * exp(m)"), map("m", "l"), map("l", "l * exp(m)")}) ==
        hoisting_text(
            {map("row", "exp(m)"), map("P", "P * row"), map("l", "l * row"), map("m", "l"), map("l", "l * exp(m)")}));
}

TEST_CASE("an expression that is computed again after a change has the same tile") {
  CHECK(hoisted({map("P", "P * exp(m)"), map("m", "l"), map("P", "P * exp(m)"), map("P", "P * exp(l)")}) ==
        hoisting_text({map("row", "exp(m)"), map("P", "P * row"), map("m", "l"), map("row", "exp(m)"),
                       map("P", "P * row"), map("row_2", "exp(l)"), map("P", "P * row_2")}));
}

}  // namespace astatide::testing
