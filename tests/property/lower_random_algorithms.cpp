// Random algorithms under random schedules: lowered with the right values, or refused as a user's error.

#include <catch2/catch.hpp>
#include <cmath>

#include "compiler/pipeline.h"
#include "compiler/rewrite/cascade.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/interpret.h"
#include "tests/support/random_algorithm.h"
#include "tests/support/random_schedule.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// The evaluator takes one side of a select, so that what is absent on the other does not matter; the cascade makes the
/// whole absent. Such algorithms are left out.
bool selects_between_absent_values(const Algorithm& algorithm) {
  bool found = false;
  for (const Func& func : algorithm.define)
    visit(func.value, [&](const Expr& e) {
      if (!e.is_call(Op::select)) return;
      for (const std::string& name : tensors_read(e))
        found = found || (algorithm.find_func(name) && algorithm.find_func(name)->where_predicate);
    });
  return found;
}

bool all_finite(const std::map<std::string, DoubleTensor>& tensors) {
  for (const auto& [name, tensor] : tensors)
    for (const double value : tensor.values)
      if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace

TEST_CASE("a random algorithm is lowered with the oracle's values at every stage, or refused as the user's error") {
  int compared = 0, refused = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    const Algorithm algorithm = random_algorithm(seed);
    const Arguments arguments = random_arguments(algorithm, seed);
    if (selects_between_absent_values(algorithm)) continue;
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
      compile(algorithm, *schedule, options, [&](std::string_view stage, const tile::Program& program) {
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
