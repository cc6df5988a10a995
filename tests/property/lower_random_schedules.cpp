// Case S03 of the collection: whatever the schedule, the values are those of the algorithm.

#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {

TEST_CASE("S03: 200 random legal schedules of attention give the values of none") {
  const Algorithm algorithm = example_algorithm("attention");
  const std::map<std::string, std::int64_t> extents = {{"B", 1},    {"Hq", 2}, {"Hkv", 2}, {"Sq", 37},
                                                       {"Sk", 130}, {"D", 24}, {"Dv", 40}};
  std::mt19937 random(0);
  const Arguments arguments = random_inputs(algorithm, extents, random);
  const auto expected = evaluate(algorithm, arguments);
  int over_budget = 0;
  for (int n = 0; n < 200;) {
    const std::optional<Schedule> schedule = random_schedule(algorithm, extents, random, 64);
    REQUIRE(schedule);
    INFO("schedule " << n << ":\n" << print_schedule(*schedule));
    CompileOptions options;
    options.target = *find_target(schedule->target);
    options.sizes = extents;
    tile::Program program;
    try {
      program = compile(algorithm, *schedule, options);
    } catch (const UserError& error) {
      // What only the whole program shows: its registers and its shared memory.
      INFO(error.what());
      REQUIRE(std::string(error.what()).find(" need ") != std::string::npos);
      REQUIRE(++over_budget < 50);
      continue;
    }
    ++n;
    REQUIRE(distance(tile::interpret(program, algorithm, arguments), expected) < kTolerance);
  }
}

}  // namespace astatide::testing
