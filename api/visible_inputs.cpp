#include "api/visible_inputs.h"

namespace astatide {

VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         const HostTensors& inputs) {
  std::map<std::string, DoubleTensor> values;
  return visible_work(algorithm, extents, [&](const std::string& name) -> const DoubleTensor* {
    const auto given = inputs.find(name);
    // What is larger takes longer to look at than a launch.
    if (given == inputs.end() || is_floating(given->second.dtype) || given->second.element_count() > kMostVisiblePlaces)
      return nullptr;
    const auto [known, added] = values.try_emplace(name);
    if (added) known->second = {given->second.shape, runtime::to_doubles(given->second)};
    return &known->second;
  });
}

VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         std::uint64_t seed) {
  HostTensors inputs;
  for (const std::string& name : inputs_of_masks(algorithm)) {
    const Input& input = *algorithm.find_input(name);
    if (!input.dtype || (*input.dtype != ScalarType::boolean && *input.dtype != ScalarType::u8)) continue;
    std::vector<std::int64_t> shape;
    for (const Expr& dim : input.dims) shape.push_back(evaluate_integer(dim, extents));
    if (runtime::checked_element_count(shape, 1, name) <= kMostVisiblePlaces)
      inputs.emplace(name, random_tensor(name, *input.dtype, std::move(shape), seed));
  }
  return visible_work(algorithm, extents, inputs);
}

}  // namespace astatide
