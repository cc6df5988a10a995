// Any algorithm under any schedule for CPUs has the evaluator's values as machine code. ASTATIDE_SEED=N runs one draw
// again, ASTATIDE_DRAWS=N makes so many comparisons.

#include <catch2/catch.hpp>

#include "tests/support/random_draws.h"

#ifdef ASTATIDE_WITH_CPU

namespace astatide::testing {

TEST_CASE("random algorithms under random schedules of CPUs equal the evaluator") {
  DrawOptions options;
  options.device = Device::cpu();
  for (const std::string& name : shipped_schedules())
    if (name.starts_with("cpu/")) options.schedules.push_back(name);
  options.wanted = 260;
  options.lengths = 6;
  options.command = "test_property 'random algorithms under random schedules of CPUs equal the evaluator'";
  check_draws(options);
}

}  // namespace astatide::testing

#endif
