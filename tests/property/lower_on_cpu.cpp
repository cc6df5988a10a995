// Random legal schedules of every kind of algorithm, as machine code.

#include <array>
#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "tests/support/cpu_runner.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

#ifdef ASTATIDE_WITH_CPU

namespace astatide::testing {
namespace {

/// f32 against double: the sums here have at most 41 terms.
constexpr double kFloatTolerance = 1e-4;

/// What the inputs are when they are held as f32.
Arguments rounded(Arguments arguments) {
  for (auto& [name, tensor] : arguments.inputs)
    for (double& value : tensor.values) value = static_cast<float>(value);
  return arguments;
}

std::map<std::string, DoubleTensor> run_on_cpu(const Algorithm& algorithm, const tile::Program& program,
                                               const Arguments& arguments) {
  std::map<std::string, HostArray> arrays;
  for (const Input& input : algorithm.inputs) {
    const DoubleTensor& tensor = arguments.inputs.at(input.name);
    arrays[input.name] = HostArray::of(input.dtype.value_or(ScalarType::f32), tensor.shape, tensor.values);
  }
  for (const std::string& output : algorithm.outputs) {
    std::vector<std::int64_t> shape;
    for (const Expr& dim : shape_of(algorithm, output)) shape.push_back(evaluate_integer(dim, arguments.extents));
    arrays[output] = HostArray::poisoned(ScalarType::f32, shape);
  }
  std::map<std::string, HostArray*> pointers;
  for (auto& [name, array] : arrays) pointers[name] = &array;
  std::map<std::string, float> scalars;
  for (const auto& [name, value] : resolve_scalars(algorithm, arguments.extents, arguments.scalars))
    scalars[name] = static_cast<float>(value);
  runtime::CpuWorkers workers(2);
  CpuProgram(program, cpu::detect_host()).run(pointers, arguments.extents, scalars, workers);
  std::map<std::string, DoubleTensor> out;
  for (const std::string& output : algorithm.outputs) out[output] = {arrays[output].shape, arrays[output].values()};
  return out;
}

}  // namespace

TEST_CASE("random legal schedules of the examples have the algorithm's values as machine code") {
  const std::vector<std::pair<int, int>> shapes = {{37, 41}, {5, 33}, {33, 5}, {1, 40}, {3, 0}, {16, 16}};
  for (const std::string name :
       {"attention", "causal_gqa", "sliding_window", "softcap_alibi", "additive_bias", "document_mask", "prefix_lm",
        "sigmoid_attention", "linear_attention", "sink", "entropy", "variance"}) {
    const Algorithm algorithm = example_algorithm(name);
    for (std::uint32_t seed = 0; seed < shapes.size(); ++seed) {
      std::mt19937 random(seed + 100);
      const auto [sq, sk] = shapes[seed];
      const auto extents = small_extents(algorithm, sq, sk);
      const std::optional<Schedule> schedule = random_schedule(algorithm, extents, random);
      INFO(name << " seed " << seed << " Sq " << sq << " Sk " << sk);
      REQUIRE(schedule);
      INFO(print_schedule(*schedule));
      const Arguments arguments = rounded(random_inputs(algorithm, extents, random));
      CompileOptions options;
      options.target = *find_target(schedule->target);
      options.sizes = extents;
      const tile::Program program = compile(algorithm, *schedule, options);
      INFO(tile::print(program));
      REQUIRE(distance(run_on_cpu(algorithm, program, arguments), evaluate(algorithm, arguments)) < kFloatTolerance);
    }
  }
}

TEST_CASE("overlapped schedules have the algorithm's values as machine code") {
  const std::array<std::string, 4> covers{"0", "1/3", "1/2", "1"};
  std::size_t turn = 0;
  for (const std::string name : {"attention", "causal_gqa", "sliding_window", "sigmoid_attention", "sink"})
    for (const auto& [sq, sk] : {std::pair{5, 0}, {9, 13}, {7, 41}, {41, 7}, {3, 48}}) {
      const std::string& cover = covers[turn++ % covers.size()];
      const Algorithm algorithm = example_algorithm(name);
      const auto extents = small_extents(algorithm, sq, sk);
      const Schedule schedule = parse_schedule(
          "target: cpu\nO: {tile: {i: 4, j: 12}, reorder: [b, h, i.o, j.o], parallel: [i.o, h, b]}\n"
          "S: {compute_at: j.o, store_in: shared, overlap: {cover: " +
              cover +
              "}}\n"
              "P: {compute_at: j.o, store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\n"
              "K: {stage_at: j.o, store_in: shared}\nV: {stage_at: j.o, store_in: shared}\n",
          "overlapped.yaml");
      INFO(name << " Sq " << sq << " Sk " << sk << " cover " << cover);
      std::mt19937 random(7);
      const Arguments arguments = rounded(random_inputs(algorithm, extents, random));
      CompileOptions options;
      options.target = *find_target("cpu");
      options.sizes = extents;
      const tile::Program program = compile(algorithm, schedule, options);
      INFO(tile::print(program));
      REQUIRE(distance(run_on_cpu(algorithm, program, arguments), evaluate(algorithm, arguments)) < kFloatTolerance);
    }
}

TEST_CASE("lazy and optimistic schedules have the algorithm's values as machine code, whatever scores do") {
  int compared = 0;
  for (const std::string name : {"attention", "causal_gqa", "sliding_window", "sink", "entropy"}) {
    const Algorithm algorithm = example_algorithm(name);
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      std::mt19937 random(seed + 200);
      const auto extents = small_extents(algorithm, 21, 41);
      std::optional<Schedule> schedule = random_schedule(algorithm, extents, random, 16);
      REQUIRE(schedule);
      if (schedule->rewrite != RewriteMode::online) continue;
      schedule->rescale = {seed % 2 == 0 ? RescaleMode::lazy : RescaleMode::optimistic, {}, {}};
      if (seed % 3 == 0) schedule->rescale.grow = 2;
      if (seed % 6 == 3) schedule->rescale.over = 3;
      INFO(name << " seed " << seed << "\n" << print_schedule(*schedule));
      Arguments arguments = random_inputs(algorithm, extents, random);
      // Scores that grow along the axis, past any of the bounds.
      DoubleTensor& k = arguments.inputs.at("K");
      if (seed % 4 == 1)
        for (std::size_t n = 0; n < k.values.size(); ++n) k.values[n] *= static_cast<double>(n / 5);
      arguments = rounded(std::move(arguments));
      CompileOptions options;
      options.target = *find_target(schedule->target);
      options.sizes = extents;
      try {
        const tile::Program program = compile(algorithm, *schedule, options);
        INFO(tile::print(program));
        REQUIRE(distance(run_on_cpu(algorithm, program, arguments), evaluate(algorithm, arguments)) <
                (seed % 4 == 1 ? 1e-2 : kFloatTolerance));
        ++compared;
      } catch (const UserError&) {
        // Nothing to be lazy with, such as one tile for the axis.
      }
    }
  }
  CHECK(compared > 10);
}

}  // namespace astatide::testing

#endif
