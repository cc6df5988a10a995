#include <catch2/catch.hpp>

#include "compiler/passes/fold_factors.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

std::string folded(const char* value, bool approximate = false, tile::Family family = tile::Family::mma_sync) {
  tile::Stmt product = mma_add("acc", "P", "V");
  std::get<tile::Mma>(product.node).by = family;
  tile::Program program = one_kernel(
      {in_registers("acc", {{"i", 4}, {"j", 8}}), in_registers("S", {{"i", 4}, {"j", 8}}),
       in_registers("r", {{"i", 4}}), in_registers("P", {{"i", 4}, {"d", 8}}), in_shared("V", {{"d", 8}, {"j", 8}})},
      {product, map("S", value, {at("j", 0)})});
  program.scalars = {"cap", "scale"};
  if (approximate) program.approximate = {Op::tanh};
  const tile::Program out = fold_factors(program, *find_target("sm_80"));
  return to_string(std::get<tile::Map>(out.kernels[0].body[1].node).value);
}

}  // namespace

TEST_CASE("factors that are the same for all elements come together behind the others") {
  CHECK(folded("cap * S * 2.0 - r") == "S * (cap * 2.0) - r");
  CHECK(folded("exp2(cap * (S * scale))") == "exp2(S * (cap * scale))");
  CHECK(folded("scale * r * S * cap") == "r * S * (scale * cap)");  // a row's own number is none of them
  CHECK(folded("scale * S * cap * j") == "S * j * (scale * cap)");  // nor a coordinate
}

TEST_CASE("one factor, a sum, and what FMA units compute stay as they are") {
  CHECK(folded("cap * S") == "cap * S");
  CHECK(folded("(S + scale) * cap") == "(S + scale) * cap");
  CHECK(folded("cap * S * 2.0", false, tile::Family::fma) == "cap * S * 2.0");
}

TEST_CASE("divisors join them where an instruction approximates what reads the quotient, and nowhere else") {
  CHECK(folded("cap * tanh(S * scale / cap) * 2.0", true) == "tanh(S * (scale / cap)) * (cap * 2.0)");
  CHECK(folded("tanh(S / cap)", true) == "tanh(S * (1.0 / cap))");
  CHECK(folded("tanh(S / r)", true) == "tanh(S / r)");
  CHECK(folded("S / cap", true) == "S / cap");
  CHECK(folded("cap * tanh(S * scale / cap) * 2.0") == "tanh(S * scale / cap) * (cap * 2.0)");
}

}  // namespace astatide::testing
