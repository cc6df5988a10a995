// The values of a tile program after a stage of the compiler.
#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string_view>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/case_data.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {

/// Tells what a pass has changed from what it has left as it was: an equal program has the values that were compared
/// after the pass before, and the interpreter need not run it again.
class Changes {
 public:
  /// Whether a program is another than the one before it.
  bool in(const tile::Program& program) {
    if (last_ == program) return false;
    last_ = program;
    return true;
  }

 private:
  std::optional<tile::Program> last_;
};

/// Requires what the interpreter makes of a program to be what is expected; else the program is printed.
inline void require_stage_values(std::string_view stage, const tile::Program& program, const Algorithm& algorithm,
                                 const Arguments& arguments, const std::map<std::string, DoubleTensor>& expected) {
  const double found = distance(tile::interpret(program, algorithm, arguments), expected);
  if (found < kTolerance) return;
  INFO("after " << stage << ":\n" << tile::print(program));
  REQUIRE(found < kTolerance);
}

/// Requires it of every stage, with random inputs of `seed`.
inline void require_every_stage(const Algorithm& algorithm, const Schedule& schedule, const Sizes& extents,
                                std::uint32_t seed) {
  std::mt19937 random(seed);
  const Arguments arguments = random_inputs(algorithm, extents, random);
  const auto expected = evaluate(algorithm, arguments);
  std::string sizes;
  for (const auto& [name, size] : extents) sizes += " " + name + " " + std::to_string(size);
  INFO(algorithm.name << sizes << "\n" << print_schedule(schedule));
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = extents;
  Changes changes;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (changes.in(program)) require_stage_values(stage, program, algorithm, arguments, expected);
  });
}

}  // namespace astatide::testing
