// Any algorithm under any schedule for GPUs has the evaluator's values as machine code of the CPU, which runs the same
// tile program, and CUDA source. ASTATIDE_SEED=N runs one draw again, ASTATIDE_DRAWS=N makes so many comparisons.

#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "tests/support/random_draws.h"

#ifdef ASTATIDE_WITH_CPU

namespace astatide::testing {

TEST_CASE("random algorithms under random schedules of GPUs equal the evaluator on the CPU") {
  DrawOptions options;
  options.device = Device::cpu();
  for (const std::string& name : shipped_schedules())
    if (!name.starts_with("cpu/")) options.schedules.push_back(name);
  options.wanted = 250;
  options.own_code = [](const tile::Program& program, const std::string&) { cuda::emit(program); };
  options.lengths = 6;
  options.command = "test_property 'random algorithms under random schedules of GPUs equal the evaluator on the CPU'";
  check_draws(options);
}

}  // namespace astatide::testing

#endif
