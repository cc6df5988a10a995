// Random algorithms under random schedules: lowered with the right values, or refused as a user's error.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/rewrite/cascade.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/support/random_algorithm.h"
#include "tests/support/random_schedule.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {

TEST_CASE("a random algorithm is lowered with the oracle's values at every stage, or refused as the user's error") {
  int compared = 0, refused = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    const Algorithm algorithm = random_algorithm(seed);
    const Arguments arguments = random_arguments(algorithm, seed);
    try {
      find_cascade(algorithm);
      std::mt19937 random(seed);
      const std::optional<Schedule> schedule = random_schedule(algorithm, arguments.extents, random, 8);
      if (!schedule) continue;
      INFO(print_algorithm(algorithm) << print_schedule(*schedule));
      CompileOptions options;
      options.target = *find_target(schedule->target);
      options.sizes = arguments.extents;
      const auto expected = evaluate(algorithm, arguments);
      const bool finite = all_finite(expected);
      Changes changes;
      compile(algorithm, *schedule, options, [&](std::string_view stage, const tile::Program& program) {
        if (!changes.in(program)) return;
        const double found = distance(tile::interpret(program, algorithm, arguments), expected);
        // Infinities times zero depend on the order of operations.
        if (!finite || found < 1e-6) return;
        INFO("after " << stage << ":\n" << tile::print(program));
        REQUIRE(found < 1e-6);
      });
      ++compared;
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(compared > 50);
  CHECK(refused > 1000);
}

}  // namespace astatide::testing
