#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "compiler/algorithm/build.h"
#include "tests/support/case_data.h"
#include "tests/support/paths.h"

namespace astatide::testing {
namespace {

std::vector<std::string> example_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("examples")))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  return names;
}

std::string readme() {
  std::ifstream stream(source_path("examples/README.md"));
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("Every example reads, prints as itself, has sizes and a row in the README") {
  const std::vector<std::string> names = example_names();
  REQUIRE(names.size() >= 13);
  for (const std::string& name : names) {
    INFO(name);
    const Algorithm algorithm = example_algorithm(name);
    CHECK(algorithm.name == name);
    CHECK(algorithm.sizes.size() == algorithm.extents.size());
    CHECK(equal(parse_algorithm(print_algorithm(algorithm), "printed.yaml"), algorithm));
    CHECK(readme().find("[" + name + ".yaml](" + name + ".yaml)") != std::string::npos);
  }
}

TEST_CASE("Every example evaluates to finite numbers, but for rows without a visible key") {
  for (const std::string& name : example_names()) {
    INFO(name);
    const Algorithm algorithm = example_algorithm(name);
    Sizes extents;
    for (const Extent& extent : algorithm.extents) extents[extent.name] = 3;
    Arguments arguments = gaussian_arguments(algorithm, extents, 5);
    for (const Input& input : algorithm.inputs)
      if (input.dtype)
        // Offsets of items of one row, or any index.
        arguments.inputs[input.name] =
            make_tensor(shape_of_input(algorithm, input.name, extents), [&](const std::vector<std::int64_t>& at) {
              // Each item has pages of its own, which updates store into.
              if (input.name == "page") return static_cast<double>(at.front());
              return input.monotone ? static_cast<double>(at.back()) : 1.0;
            });
    for (const auto& [output, tensor] : evaluate(algorithm, arguments))
      for (const double value : tensor.values)
        CHECK((std::isfinite(value) || (output == "L" && value == -std::numeric_limits<double>::infinity())));
  }
}

TEST_CASE("The sink's example is the softmax with one more score and a value of zero") {
  const Algorithm algorithm = example_algorithm("sink");
  const Sizes extents{{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 256}, {"D", 4}, {"Dv", 4}};
  Arguments arguments = zero_q_ramp_v(algorithm, extents);
  arguments.inputs["V"] = constant_tensor(shape_of_input(algorithm, "V", extents), 1);
  arguments.inputs["sink"] = {{2}, {0, 2}};
  const auto outputs = evaluate(algorithm, arguments);
  for (std::int64_t h = 0; h < 2; ++h) {
    const double total = 256 + std::exp(2.0 * static_cast<double>(h));
    CHECK(element(outputs.at("O"), {0, h, 0, 3}) == Approx(256 / total).epsilon(1e-12));
    CHECK(element(outputs.at("L"), {0, h, 0}) == Approx(std::log(total)).epsilon(1e-12));
  }
}

TEST_CASE("The README's builder makes a checked algorithm") {
  AlgorithmBuilder builder("causal");
  builder.extents({"B", "H", "Sq", "Sk", "D"});
  builder.scalar("scale", 1 / sqrt(variable("D")));
  builder.input("Q", {"B", "H", "Sq", "D"}).input("K", {"B", "H", "Sk", "D"}).input("V", {"B", "H", "Sk", "D"});
  builder.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale where j <= i + Sk - Sq");
  builder.define("P[b,h,i,j] = softmax(j, S[b,h,i,j])");
  builder.define("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])");
  CHECK_NOTHROW(builder.outputs({"O"}).build());
  CHECK(readme().find("builder.define(\"O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\");") != std::string::npos);
}

}  // namespace astatide::testing
