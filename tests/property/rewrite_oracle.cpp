#include <catch2/catch.hpp>

#include "compiler/algorithm/evaluate.h"
#include "tests/property/rewrite_cases.h"

using namespace astatide;
using namespace astatide::test;

namespace {

Arguments arguments_of(const Algorithm& algorithm, const RowData& row) {
  Arguments arguments;
  for (const Extent& extent : algorithm.extents) {
    arguments.extents[extent.name] = extent.name == "I" ? 1 : extent.name == "E" ? 2 : row.length;
  }
  for (const Input& input : algorithm.inputs) {
    if (input.name == "v") {
      arguments.inputs["v"] = {{row.length, 2}, row.v};
    } else {
      arguments.inputs[input.name] = {{1, row.length},
                                      input.name == "s"   ? row.s
                                      : input.name == "r" ? row.r
                                                          : row.keep};
    }
  }
  return arguments;
}

}  // namespace

TEST_CASE("streams and the stages of a cascade agree with the evaluator of algorithms") {
  const unsigned seed = 9;
  std::mt19937 rng(seed);
  for (const WorkedCase& worked : worked_cases()) {
    for (const bool masked : {false, true}) {
      const Algorithm algorithm = algorithm_of(worked, masked);
      const Cascade cascade = find_cascade(algorithm);
      const Recurrence recurrence = derive_online(cascade);
      for (int round = 0; round < 20; ++round) {
        INFO(worked.name << (masked ? ", masked" : "") << ", seed " << seed << ", round " << round);
        const RowData row = random_row(rng, worked, 1 + static_cast<std::int64_t>(rng() % 20), round == 0 ? 1 : 0.5);
        RowOutputs wanted;
        for (const auto& [name, tensor] : evaluate(algorithm, arguments_of(algorithm, row)))
          wanted[name] = tensor.values;
        const RowInputs inputs = row.inputs(algorithm);
        REQUIRE(difference(wanted, evaluate_row(cascade, inputs, positions_of(row))) == "");
        const RowExecutor executor(recurrence, inputs);
        REQUIRE(difference(wanted, executor.finalize(stream(executor, rng, positions_of(row)))) == "");
      }
    }
  }
}
