#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "compiler/algorithm/evaluate.h"
#include "tests/support/case_data.h"

namespace astatide::testing {
namespace {

const std::string kPaged = R"(algorithm: paged
extents: [B, Pages, Slots, N]
inputs: {page: {dims: [B, Slots], dtype: i32}, K: [Pages, 4]}
axes: {j: N, b: B}
define:
  - O[b,j] = K[page[b, j/4], j%4]
outputs: [O]
)";

Arguments paged_arguments(const Algorithm& algorithm) {
  Arguments arguments = gaussian_arguments(algorithm, {{"B", 2}, {"Pages", 3}, {"Slots", 2}, {"N", 8}}, 1);
  arguments.inputs["page"] = {{2, 2}, {0, 2, 1, 0}};
  return arguments;
}

std::string refusal(const Algorithm& algorithm, const Arguments& arguments) {
  try {
    evaluate(algorithm, arguments);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_paged(const std::function<void(Arguments&)>& spoil) {
  const Algorithm algorithm = parse_algorithm(kPaged, "paged.yaml");
  Arguments arguments = paged_arguments(algorithm);
  spoil(arguments);
  return refusal(algorithm, arguments);
}

std::string refusal_of_definition(const std::string& line, std::int64_t n) {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: one\nextents: [N]\ninputs: {x: [N]}\naxes: {i: N}\ndefine:\n  - " + line + "\noutputs: [O]\n",
      "one.yaml");
  return refusal(algorithm, gaussian_arguments(algorithm, {{"N", n}}, 1));
}

}  // namespace

TEST_CASE("A read through an index out of range names the tensor, the index and the length") {
  CHECK(refusal_of_paged([](Arguments&) {}) == "accepted");
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs["page"].values[2] = 3; }) ==
        "paged.yaml:6:5: error: O reads K at index 3 of dimension 1, whose length is 3\n"
        "      - O[b,j] = K[page[b, j/4], j%4]\n"
        "        ^");
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs["page"].values[2] = -1; }).find("at index -1 of dimension 1") !=
        std::string::npos);
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs["page"].values[2] = 0.5; }).find("at index 0.5 of dimension 1") !=
        std::string::npos);
  CHECK(refusal_of_definition("O[i] = x[2*i]", 4).find("O reads x at index 4 of dimension 1, whose length is 4") !=
        std::string::npos);
}

TEST_CASE("A guard keeps an index from being read") {
  CHECK(refusal_of_definition("O[i] = x[2*i] where 2*i < N", 4) == "accepted");
  CHECK(refusal_of_definition("O[i] = select(2*i < N, x[2*i], 0)", 4) == "accepted");
  CHECK(refusal_of_definition("O[i] = x[i] where 2*i < N and x[2*i] > 0", 4) == "accepted");
  CHECK(refusal_of_definition("O[i] = x[i] where x[2*i] > 0 and 2*i < N", 4) != "accepted");
}

TEST_CASE("Arguments that don't fit are refused with the numbers") {
  CHECK(refusal_of_paged([](Arguments& a) { a.extents.erase("N"); }) == "error: extent N has no value");
  CHECK(refusal_of_paged([](Arguments& a) { a.extents["N"] = -1; }) == "error: extent N is -1, the least is 0");
  CHECK(refusal_of_paged([](Arguments& a) { a.extents["M"] = 1; }) == "error: 'M' is no extent of paged");
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs.erase("K"); }) ==
        "error: input K is missing\nnote: its shape is [3, 4]");
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs["V"] = {{1}, {1}}; }) == "error: 'V' is no input of paged");
  CHECK(refusal_of_paged([](Arguments& a) {
          a.inputs["K"].shape = {4, 3};
        }) == "error: input K has the shape [4, 3], the extents say [3, 4]");
  CHECK(refusal_of_paged([](Arguments& a) { a.inputs["K"].values.pop_back(); }) ==
        "error: input K holds 11 elements, its shape [3, 4] has 12");
}

TEST_CASE("A definition too large to hold is refused before anything is allocated") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: large\nextents: [N]\ninputs: {x: [1]}\naxes: {i: N, j: N}\ndefine:\n  - O[i,j] = x[0] * i * "
      "j\noutputs: [O]\n",
      "large.yaml");
  Arguments arguments;
  arguments.inputs["x"] = {{1}, {1}};
  arguments.extents["N"] = 46342;
  CHECK(refusal(algorithm, arguments)
            .find("O has the shape [46342, 46342], the evaluator holds at most 2147483648 elements") !=
        std::string::npos);
  arguments.extents["N"] = std::int64_t{1} << 62;
  CHECK(refusal(algorithm, arguments).find("the evaluator holds at most 2147483648 elements") != std::string::npos);
}

TEST_CASE("Integers divided by zero, or too large to be exact, are refused") {
  CHECK(refusal_of_definition("O[i] = x[3 % i]", 4).find("O divides the integer 3 by zero") != std::string::npos);
  CHECK(refusal_of_definition("O[i] = x[i] where (i * 4503599627370496 * 4) % 3 == 0", 4).find("2^53") !=
        std::string::npos);
}

TEST_CASE("Scalars that are missing, unknown or not finite are refused") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: scaled\nextents: [N]\nscalars: {scale: 1/N, cap: null}\ninputs: {x: [N]}\ndefine:\n  - O[i] = x[i] * "
      "scale + cap\noutputs: [O]\n",
      "scaled.yaml");
  const auto refused = [&](std::int64_t n, const std::map<std::string, double>& given) -> std::string {
    try {
      resolve_scalars(algorithm, {{"N", n}}, given);
    } catch (const UserError& error) {
      return error.diagnostics().front().message;
    }
    return "accepted";
  };
  CHECK(resolve_scalars(algorithm, {{"N", 4}}, {{"cap", 2}}) ==
        std::map<std::string, double>{{"scale", 0.25}, {"cap", 2}});
  CHECK(refused(4, {}) == "scalar cap has no default and no value was given");
  CHECK(refused(4, {{"cap", std::nan("")}}) == "scalar cap is nan, which is not finite");
  CHECK(refused(0, {{"cap", 1}}) == "scalar scale is inf, which is not finite");
  CHECK(refused(4, {{"cap", 1}, {"scael", 1}}) == "'scael' is no scalar of scaled");
}

}  // namespace astatide::testing
