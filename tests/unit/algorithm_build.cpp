#include <catch2/catch.hpp>

#include "compiler/algorithm/build.h"
#include "tests/support/case_data.h"

namespace astatide::testing {
namespace {

AlgorithmBuilder declared() {
  AlgorithmBuilder builder("causal_gqa");
  builder.extents({"B", "Hq", "Hkv", "Sq", "Sk", "D", "Dv"});
  builder.scalar("scale", 1 / sqrt(variable("D")));
  builder.input("Q", {"B", "Hq", "Sq", "D"}).input("K", {"B", "Hkv", "Sk", "D"}).input("V", {"B", "Hkv", "Sk", "Dv"});
  builder.outputs({"O", "L"});
  for (const auto& [extent, size] :
       Sizes{{"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 512}, {"Sk", 512}, {"D", 64}, {"Dv", 64}})
    builder.size(extent, size);
  return builder;
}

std::string refusal(const AlgorithmBuilder& builder) {
  try {
    builder.build();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("Lines given to the builder make the value that the file makes") {
  AlgorithmBuilder builder = declared();
  builder.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale");
  builder.define("A[b,h,i,j] = S[b,h,i,j] where j <= i + Sk - Sq");
  builder.define("P[b,h,i,j] = softmax(j, A[b,h,i,j])");
  builder.define("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])");
  builder.define("L[b,h,i] = logsumexp(j, A[b,h,i,j])");
  CHECK(equal(builder.build(), example_algorithm("causal_gqa")));
}

TEST_CASE("Formulas given to the builder make the value that the file makes") {
  const Expr b = variable("b"), h = variable("h"), i = variable("i"), j = variable("j"), d = variable("d"),
             e = variable("e");
  const Expr kv_head = floor_div(h * variable("Hkv"), variable("Hq"));
  const Expr scores = read("A", {b, h, i, j});
  AlgorithmBuilder builder = declared();
  builder.define("S", {"b", "h", "i", "j"},
                 sum("d", read("Q", {b, h, i, d}) * read("K", {b, kv_head, j, d})) * variable("scale"));
  builder.define("A", {"b", "h", "i", "j"}, read("S", {b, h, i, j}),
                 less_equal(j, i + variable("Sk") - variable("Sq")));
  builder.define("P", {"b", "h", "i", "j"}, softmax("j", scores));
  builder.define("O", {"b", "h", "i", "e"}, sum("j", read("P", {b, h, i, j}) * read("V", {b, kv_head, j, e})));
  builder.define("L", {"b", "h", "i"}, logsumexp("j", scores));
  CHECK(equal(builder.build(), example_algorithm("causal_gqa")));
}

TEST_CASE("Dimensions are names or formulas, and may have a type of their own") {
  AlgorithmBuilder builder("paged");
  builder.extents({"B", "N", "Pages"});
  builder.input("page", {"B", "N/16"}, ScalarType::i32)
      .input("x", {variable("Pages"), Expr(16)})
      .axis("j", variable("N"));
  const Algorithm algorithm = builder.define("O[b,j] = x[page[b, j/16], j%16]").outputs({"O"}).build();
  CHECK(algorithm.find_input("page")->dims[1] == floor_div(variable("N"), 16));
  CHECK(algorithm.find_input("page")->dtype == ScalarType::i32);
}

TEST_CASE("What the builder refuses says which definition") {
  AlgorithmBuilder builder("wrong");
  builder.extents({"N"}).input("x", {"N"}).outputs({"O"});
  builder.define("O", {"i"}, read("y", {variable("i")}));
  builder.axis("i", variable("N"));
  CHECK(refusal(builder).find("definition of O: error: unknown tensor 'y'") != std::string::npos);
}

TEST_CASE("A line that does not parse is refused at once, with its place in the line") {
  AlgorithmBuilder builder("wrong");
  try {
    builder.define("O[i] = x[i");
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()) ==
          "definition 1 of wrong:1:11: error: ',' or ']' expected after an index, found the end\n"
          "    O[i] = x[i\n"
          "              ^");
  }
}

TEST_CASE("Names that are no identifiers are refused by the builder too") {
  AlgorithmBuilder builder("x; system(\"reboot\")");
  builder.extents({"N"}).input("x", {"N"}).outputs({"O"}).define("O[i] = x[i]");
  CHECK(refusal(builder).find("is not a name") != std::string::npos);
}

}  // namespace astatide::testing
