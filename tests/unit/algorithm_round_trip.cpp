#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "compiler/algorithm/algorithm.h"
#include "tests/support/case_data.h"
#include "tests/support/paths.h"
#include "tests/support/random_algorithm.h"

namespace astatide::testing {

TEST_CASE("Printing an algorithm and reading it again gives an equal one") {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    const Algorithm algorithm = random_algorithm(seed);
    const std::string text = print_algorithm(algorithm);
    INFO("seed " << seed << "\n" << text);
    REQUIRE_NOTHROW(check_algorithm(algorithm));
    Algorithm again;
    REQUIRE_NOTHROW(again = parse_algorithm(text, "printed.yaml"));
    REQUIRE(equal(algorithm, again));
    REQUIRE(print_algorithm(again) == text);
  }
}

TEST_CASE("Printing an expression and reading it again, no names known, gives an equal one") {
  int expressions = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    for (const Func& func : random_algorithm(seed).define) {
      INFO("seed " << seed << "\n" << to_string(func.value));
      REQUIRE(parse_expr(to_string(func.value), {}) == func.value);
      ++expressions;
    }
  }
  CHECK(expressions > 500);
}

TEST_CASE("The printed mathematics of an algorithm") {
  CHECK(print_mathematics(example_algorithm("causal_gqa")) ==
        "S[b,h,i,j] = scale * sum_d Q[b,h,i,d] K[b, h*Hkv/Hq, j, d]\n"
        "A[b,h,i,j] = S[b,h,i,j]  where j <= i + Sk - Sq\n"
        "P[b,h,i,j] = softmax_j A[b,h,i,j]\n"
        "O[b,h,i,e] = sum_j P[b,h,i,j] V[b, h*Hkv/Hq, j, e]\n"
        "L[b,h,i] = logsumexp_j A[b,h,i,j]\n");
}

TEST_CASE("The schema for editors is that of the reader") {
  std::ifstream stream(source_path("examples/schema.json"));
  std::stringstream text;
  text << stream.rdbuf();
  if (const char* update = std::getenv("UPDATE_GOLDENS"); update && std::string(update) == "1") {
    std::ofstream(source_path("examples/schema.json")) << algorithm_json_schema();
    return;
  }
  CHECK(text.str() == algorithm_json_schema());
}

}  // namespace astatide::testing
