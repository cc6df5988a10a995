#include <catch2/catch.hpp>

#include "tests/property/rewrite_cases.h"

using namespace astatide;
using namespace astatide::test;

namespace {

std::string gauges_of(const Recurrence& recurrence) {
  std::string flags;
  for (const Slot& slot : recurrence.slots) {
    const bool is_reference = std::any_of(recurrence.slots.begin(), recurrence.slots.end(), [&](const Slot& other) {
      return std::find(other.references.begin(), other.references.end(), slot.name) != other.references.end();
    });
    if (is_reference && slot.op != Reduction::sum) flags += slot.gauge ? "y" : "n";
  }
  return flags.empty() ? "-" : flags;
}

/// Rows of 30 in which a lazy reference gives other outputs than the definition.
int wrong_rows(const WorkedCase& worked, bool masked, bool forced, unsigned seed, std::string& first) {
  std::mt19937 rng(seed);
  const Algorithm algorithm = algorithm_of(worked, masked);
  const Cascade cascade = find_cascade(algorithm);
  const Recurrence recurrence = derive_online(cascade);
  int wrong = 0;
  for (int round = 0; round < 30; ++round) {
    const RowData row = random_row(rng, worked, 1 + static_cast<std::int64_t>(rng() % 40), 0.5);
    const RowExecutor executor(recurrence, row.inputs(algorithm));
    const RowOutputs wanted = evaluate_row(cascade, row.inputs(algorithm), positions_of(row));
    const LazyReferences lazy{8, forced};
    std::string problem = difference(wanted, executor.finalize(stream(executor, rng, positions_of(row), lazy)));
    if (problem.empty()) problem = difference(wanted, executor.finalize(tree(executor, rng, positions_of(row), lazy)));
    if (problem.empty()) continue;
    ++wrong;
    if (first.empty()) first = problem;
  }
  return wrong;
}

}  // namespace

TEST_CASE("the gauge flag holds for the references that no output shows") {
  for (const WorkedCase& worked : worked_cases()) {
    INFO(worked.name);
    CHECK(gauges_of(derive_online(find_cascade(algorithm_of(worked)))) == worked.gauge);
  }
}

TEST_CASE("a reference that lags by up to 2^8 changes no output where it is a gauge") {
  const unsigned seed = 6;
  for (const WorkedCase& worked : worked_cases()) {
    if (worked.gauge.find('y') == std::string::npos) continue;
    for (const bool masked : {false, true}) {
      std::string first;
      const int wrong = wrong_rows(worked, masked, false, seed, first);
      INFO(worked.name << (masked ? ", masked" : "") << ", seed " << seed << ": " << first);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a reference that lags where it is no gauge gives wrong outputs") {
  const unsigned seed = 7;
  int cases = 0;
  for (const WorkedCase& worked : worked_cases()) {
    if (worked.gauge.find('n') == std::string::npos) continue;
    ++cases;
    std::string first;
    INFO(worked.name << ", seed " << seed);
    CHECK(wrong_rows(worked, false, true, seed, first) > 5);
  }
  CHECK(cases == 3);
}
