#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/rewrite/execute.h"

using namespace astatide;

namespace {

const char* const kRow = R"(
algorithm: row
extents: [Sk, E]
inputs: {s: [Sk], v: [Sk, E]}
define:
  - P[j] = softmax(j, s[j])
  - O[e] = sum(j, P[j] * v[j,e])
  - L[] = logsumexp(j, s[j])
outputs: [O, L]
)";

}  // namespace

TEST_CASE("scores 0, 0, ln 2, ln 2 in two tiles of two give m = ln 2, l = 3 and weights 1/6, 1/6, 1/3, 1/3") {
  const Recurrence recurrence = derive_online(find_cascade(parse_algorithm(kRow, "row.yaml")));
  const double ln2 = std::log(2.0);
  RowInputs inputs;
  inputs.variables = {{"Sk", 4}, {"E", 4}};
  // v is the unit matrix, so that O holds the weights.
  inputs.read = [&](const std::string& tensor, const std::vector<std::int64_t>& at) {
    if (tensor == "v") return at[0] == at[1] ? 1.0 : 0.0;
    return at[0] < 2 ? 0.0 : ln2;
  };
  const RowExecutor executor(recurrence, inputs);
  REQUIRE(recurrence.slots.size() == 3);
  REQUIRE(recurrence.slots[0].name == "m");
  REQUIRE(recurrence.slots[1].name == "l");

  const RowState first = executor.step(executor.identity(), {0, 1});
  CHECK(first.slots[0][0] == 0);
  CHECK(first.slots[1][0] == 2);
  const RowState both = executor.step(first, {2, 3});
  CHECK(both.slots[0][0] == ln2);
  CHECK(both.slots[1][0] == Approx(3).epsilon(1e-15));

  const RowOutputs outputs = executor.finalize(both);
  const std::vector<double> weights{1.0 / 6, 1.0 / 6, 1.0 / 3, 1.0 / 3};
  for (std::size_t i = 0; i < 4; ++i) CHECK(outputs.at("O")[i] == Approx(weights[i]).epsilon(1e-15));
  CHECK(outputs.at("L")[0] == Approx(std::log(6.0)).epsilon(1e-15));
}
