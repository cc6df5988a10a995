#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <sstream>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/case_data.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

// Every shipped schedule, with tiles and lengths at random, on every example: the program that lowering leaves computes
// what the algorithm says, and no pass changes a value of it.

using namespace astatide;

namespace {

using Outputs = std::map<std::string, DoubleTensor>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : random_(seed) {}
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[pick(0, static_cast<int>(values.size()) - 1)];
  }

 private:
  std::mt19937 random_;
};

testing::Sizes random_extents(const Algorithm& algorithm, Random& random) {
  testing::Sizes out;
  for (const Extent& extent : algorithm.extents) {
    if (extent.name == "B" || extent.name == "Hkv") {
      out[extent.name] = random.pick(1, 2);
    } else if (extent.name == "Sq") {
      out[extent.name] = random.one_of({0, 1, 5, 16, 37});
    } else if (extent.name == "Sk") {
      out[extent.name] = random.one_of({0, 1, 7, 32, 61, 100});
    } else {
      // Head sizes, windows and prefixes.
      out[extent.name] = random.pick(1, 12);
    }
  }
  if (out.contains("Hq")) out["Hq"] = out["Hkv"] * random.pick(1, 2);
  return out;
}

Arguments random_arguments(const Algorithm& algorithm, const testing::Sizes& extents, std::uint32_t seed) {
  Arguments out = testing::gaussian_arguments(algorithm, extents, seed);
  Random random(seed);
  for (const Input& input : algorithm.inputs) {
    if (!input.dtype || is_floating(*input.dtype)) continue;
    DoubleTensor& tensor = out.inputs[input.name];
    tensor = testing::make_tensor(testing::shape_of_input(algorithm, input.name, extents),
                                  [&](const auto&) { return random.pick(0, 2); });
    testing::sort_if_monotone(input, tensor);
  }
  return out;
}

/// The schedule with other tiles, without what the algorithm does not have, and with rings under what is staged in a
/// loop over tiles.
Schedule random_schedule(const std::string& name, const Algorithm& algorithm, Random& random) {
  Schedule out = without_foreign_names(parse_schedule(testing::shipped_schedule(name), name + ".yaml"), algorithm);
  const std::int64_t rows = random.one_of({16, 32});
  const std::int64_t columns = random.one_of({16, 32, 48});
  const std::int64_t ring = random.pick(1, 3);
  for (Placement& placement : out.placements) {
    for (Directive& directive : placement.directives)
      if (directive.kind == DirectiveKind::tile)
        for (auto& [axis, extent] : std::get<AxisNumbers>(directive.value)) extent = axis == "j" ? columns : rows;
    // The product that S stands for alone has its loop over j spread over blocks.
    const bool in_loop = placement.name == "V" || (placement.name == "K" && name != "simt/standard");
    if (ring > 1 && out.target != "cpu" && in_loop)
      placement.directives.push_back({DirectiveKind::ring_buffer, ring, {}});
  }
  for (auto& [extent, bound] : out.bound) bound = 192;
  return out;
}

/// The largest difference of two outputs, relative to their size; infinity where one is not finite and the other is not
/// the same.
double difference(const Outputs& a, const Outputs& b) {
  double worst = 0;
  for (const auto& [name, tensor] : a) {
    const std::vector<double>& x = tensor.values;
    const std::vector<double>& y = b.at(name).values;
    if (x.size() != y.size()) return INFINITY;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i]) continue;
      const double error = std::abs(x[i] - y[i]) / (1 + std::abs(x[i]));
      worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
    }
  }
  return worst;
}

std::string describe(const std::string& algorithm, const std::string& schedule, const testing::Sizes& extents,
                     std::uint32_t seed) {
  std::ostringstream out;
  out << algorithm << " under " << schedule << ", seed " << seed << ":";
  for (const auto& [name, value] : extents) out << " " << name << "=" << value;
  return out.str();
}

const std::vector<std::string> kAlgorithms{"attention", "causal_gqa",       "causal_top_left",   "sliding_window",
                                           "prefix_lm", "document_mask",    "softcap_alibi",     "additive_bias",
                                           "sink",      "linear_attention", "sigmoid_attention", "entropy",
                                           "variance"};

/// How many stages were run; 0 where the algorithm is refused under the schedule.
int check(const std::string& algorithm_name, const std::string& schedule_name, std::uint32_t seed) {
  const Algorithm algorithm = testing::example_algorithm(algorithm_name);
  Random random(seed);
  const testing::Sizes extents = random_extents(algorithm, random);
  const Schedule schedule = random_schedule(schedule_name, algorithm, random);
  INFO(describe(algorithm_name, schedule_name, extents, seed));
  CompileOptions options;
  options.target = *find_target(schedule.target);
  options.sizes = extents;

  const Arguments arguments = random_arguments(algorithm, extents, seed);
  const Outputs expected = evaluate(algorithm, arguments);
  std::optional<Outputs> before;
  int stages = 0;
  testing::Changes changes;
  try {
    compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
      ++stages;
      if (!changes.in(program)) return;
      INFO("after " << stage << ":\n" << print(program));
      const Outputs now = interpret(program, algorithm, arguments);
      // Passes put sums in another order, at most.
      if (before) CHECK(difference(*before, now) < 1e-11);
      if (!before) CHECK(difference(expected, now) < 1e-9);
      before = now;
    });
  } catch (const UserError& refusal) {
    if (stages > 0) FAIL("refused after lowering: " << refusal.what());
    return 0;
  }
  return stages;
}

}  // namespace

TEST_CASE("no pass changes a value, and what is lowered is what the algorithm says") {
  std::uint32_t seed = 20;
  std::size_t first = 0;
  for (const std::string& schedule : testing::shipped_schedule_names()) {
    std::vector<std::string> refused;
    // Every other algorithm, the others under the next schedule: a minute in a sanitized build is enough.
    for (std::size_t a = first++ % 2; a < kAlgorithms.size(); a += 2)
      if (check(kAlgorithms[a], schedule, ++seed) == 0) refused.push_back(kAlgorithms[a]);
    INFO(schedule);
    CHECK(refused == std::vector<std::string>{});
  }
}
