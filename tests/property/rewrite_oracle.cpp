#include <catch2/catch.hpp>

#include "tests/property/rewrite_cases.h"

using namespace astatide;
using namespace astatide::test;

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
        const RowOutputs wanted = evaluate_algorithm(algorithm, row);
        const RowInputs inputs = row.inputs(algorithm);
        REQUIRE(difference(wanted, evaluate_row(cascade, inputs, positions_of(row))) == "");
        const RowExecutor executor(recurrence, inputs);
        REQUIRE(difference(wanted, executor.finalize(stream(executor, rng, positions_of(row)))) == "");
      }
    }
  }
}
