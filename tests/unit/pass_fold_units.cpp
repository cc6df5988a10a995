#include <catch2/catch.hpp>

#include "tests/support/infinity.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Advance;
using tile::Block;
using tile::Dim;

const std::vector<Dim> kRowDims = {{"i", 4}};

tile::Program folding_program(Block body) {
  return one_kernel({in_registers("m", kRowDims), in_registers("l", kRowDims), in_registers("t", kRowDims),
                     in_registers("acc", {{"i", 4}, {"e", 4}}), in_registers("S", {{"i", 4}, {"j", 4}}),
                     in_shared("P", {{"i", 4}, {"j", 4}}), in_shared("V", {{"j", 4}, {"e", 4}})},
                    std::move(body));
}

tile::Stmt advance() {
  Advance out;
  out.updates = {{"m", Reduction::max, "t"}};
  out.moving = {{"l", parse_expr("l * exp(m - m_new)", {})}, {"acc", parse_expr("acc * exp(m - m_new)", {})}};
  return statement(out);
}

Block step() {
  return {row_reduce("t", Reduction::max, "S"), advance(), row_reduce("l", Reduction::sum, "S", true),
          mma_add("acc", "P", "V")};
}

std::string folded(Block body) { return body_after("fold_units", folding_program(std::move(body))); }

}  // namespace

TEST_CASE("in a loop that runs once an advance of units becomes an assignment and the fills go") {
  CHECK(folded({fill("m", -kInfinity), fill("l", 0), fill("acc", 0), once("j_o", 0, step())}) ==
        text_of_body(folding_program({once("j_o", 0,
                                           {row_reduce("t", Reduction::max, "S"), map("m", "t"),
                                            row_reduce("l", Reduction::sum, "S"), mma("acc", "P", "V")})})));
}

TEST_CASE("a merge with a unit by a map becomes the other operand") {
  CHECK(folded({fill("l", 0), fill("m", -kInfinity), once("j_o", 0, {map("l", "l + t"), map("m", "max(t, m)")})}) ==
        text_of_body(folding_program({once("j_o", 0, {map("l", "t"), map("m", "t")})})));
}

TEST_CASE("a loop that may run again keeps its moves") {
  const Block body = {fill("m", -kInfinity), fill("l", 0), fill("acc", 0), loop("j_o", 0, "Sk", step())};
  CHECK(folded(body) == text_of_body(folding_program(body)));
}

TEST_CASE("a tile that holds no unit, or that something has read, is not folded") {
  const Block other_value = {fill("m", 0), fill("l", 0), fill("acc", 0),
                             once("j_o", 0, {row_reduce("t", Reduction::max, "S"), advance()})};
  CHECK(folded(other_value) == text_of_body(folding_program(other_value)));
  const Block read_before = {fill("l", 0), once("j_o", 0, {map("t", "l"), map("l", "l + t")})};
  CHECK(folded(read_before) == text_of_body(folding_program(read_before)));
  const Block one_of_two_moves = {fill("m", -kInfinity), fill("l", 0),
                                  once("j_o", 0, {row_reduce("t", Reduction::max, "S"), advance()})};
  CHECK(folded(one_of_two_moves) == text_of_body(folding_program(one_of_two_moves)));
}

}  // namespace astatide::testing
