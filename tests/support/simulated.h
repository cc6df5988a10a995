// Programs to simulate: an example under a schedule, with small extents and random inputs.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {

/// Shipped schedules whose target is a GPU.
inline std::vector<std::string> gpu_schedule_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_schedules())
    if (!file.name.starts_with("cpu/")) names.emplace_back(file.name.substr(0, file.name.rfind(".yaml")));
  return names;
}

struct SimulatedCase {
  Algorithm algorithm;
  tile::Program program;
  Arguments arguments;
};

/// Other extents: one sequence, two query heads of one key head, heads of 16. Scores are large enough for references to
/// move.
inline Arguments simulated_arguments(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& lengths) {
  std::map<std::string, std::int64_t> extents = {{"B", 1},  {"Hq", 2},  {"Hkv", 1},   {"Sq", 20},   {"Sk", 40},
                                                 {"D", 16}, {"Dv", 16}, {"Left", 70}, {"Right", 10}};
  for (const auto& [name, value] : lengths) extents[name] = value;
  std::erase_if(extents, [&](const auto& extent) { return algorithm.find_extent(extent.first) == nullptr; });
  std::mt19937 random(7);
  Arguments out = random_inputs(algorithm, extents, random);
  if (const auto q = out.inputs.find("Q"); q != out.inputs.end())
    for (double& value : q->second.values) value *= 4;
  out.scalars = resolve_scalars(algorithm, extents, {});
  return out;
}

inline SimulatedCase simulated_case(const std::string& algorithm, const Schedule& schedule,
                                    const std::map<std::string, std::int64_t>& lengths) {
  SimulatedCase out{example_algorithm(algorithm), {}, {}};
  out.arguments = simulated_arguments(out.algorithm, lengths);
  const bool halves = schedule.target != "cpu" && print_schedule(schedule).find("mma: ") != std::string::npos &&
                      print_schedule(schedule).find("tf32") == std::string::npos;
  out.program =
      compile(out.algorithm, schedule,
              {*find_target(schedule.target), out.arguments.extents, halves ? ScalarType::bf16 : ScalarType::f32});
  return out;
}

inline SimulatedCase simulated_case(const std::string& algorithm, const std::string& schedule,
                                    const std::map<std::string, std::int64_t>& lengths) {
  return simulated_case(algorithm, parse_schedule(shipped_schedule(schedule), schedule + ".yaml"), lengths);
}

}  // namespace astatide::testing
