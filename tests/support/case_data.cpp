#include "tests/support/case_data.h"

#include <numeric>
#include <random>
#include <stdexcept>

#include "tests/support/paths.h"

namespace astatide::testing {

Algorithm example_algorithm(std::string_view name) {
  const std::string file = "examples/" + std::string(name) + ".yaml";
  return parse_algorithm(text_of(source_path(file)), file);
}

DoubleTensor make_tensor(const std::vector<std::int64_t>& shape,
                         const std::function<double(const std::vector<std::int64_t>&)>& f) {
  DoubleTensor tensor{shape, {}};
  const std::int64_t size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  tensor.values.reserve(static_cast<std::size_t>(size));
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t i = 0; i < size; ++i) {
    tensor.values.push_back(f(index));
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
  return tensor;
}

DoubleTensor constant_tensor(const std::vector<std::int64_t>& shape, double value) {
  return make_tensor(shape, [&](const auto&) { return value; });
}

DoubleTensor gaussian_tensor(const std::vector<std::int64_t>& shape, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  return make_tensor(shape, [&](const auto&) { return normal(generator); });
}

std::vector<std::int64_t> shape_of_input(const Algorithm& algorithm, const std::string& name, const Sizes& extents) {
  const Input* input = algorithm.find_input(name);
  if (!input) throw std::runtime_error(algorithm.name + " has no input " + name);
  std::vector<std::int64_t> shape;
  for (const Expr& dim : input->dims) shape.push_back(evaluate_integer(dim, extents));
  return shape;
}

namespace {

DoubleTensor ramp(const Algorithm& algorithm, const Sizes& extents) {
  return make_tensor(shape_of_input(algorithm, "V", extents), [](const std::vector<std::int64_t>& index) {
    return static_cast<double>(index[index.size() - 2] + 1) / 256;
  });
}

}  // namespace

Arguments zero_q_ramp_v(const Algorithm& algorithm, const Sizes& extents) {
  Arguments arguments = constant_scores(algorithm, extents, 0, 0);
  arguments.inputs["K"] =
      make_tensor(shape_of_input(algorithm, "K", extents), [](const std::vector<std::int64_t>& index) {
        std::int64_t mix = 7;
        for (const std::int64_t i : index) mix = (mix * 31 + i) % 97;
        return static_cast<double>(mix - 48) / 16;
      });
  return arguments;
}

Arguments constant_scores(const Algorithm& algorithm, const Sizes& extents, double q, double k) {
  Arguments arguments;
  arguments.extents = extents;
  arguments.inputs["Q"] = constant_tensor(shape_of_input(algorithm, "Q", extents), q);
  arguments.inputs["K"] = constant_tensor(shape_of_input(algorithm, "K", extents), k);
  arguments.inputs["V"] = ramp(algorithm, extents);
  return arguments;
}

Arguments gaussian_arguments(const Algorithm& algorithm, const Sizes& extents, std::uint32_t seed) {
  Arguments arguments;
  arguments.extents = extents;
  for (const Input& input : algorithm.inputs) {
    ++seed;
    if (!input.dtype || is_floating(*input.dtype))
      arguments.inputs[input.name] = gaussian_tensor(shape_of_input(algorithm, input.name, extents), seed);
  }
  return arguments;
}

double element(const DoubleTensor& tensor, const std::vector<std::int64_t>& index) {
  if (index.size() != tensor.shape.size()) throw std::runtime_error("wrong number of indices");
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < index.size(); ++k) {
    if (index[k] < 0 || index[k] >= tensor.shape[k]) throw std::runtime_error("index out of range");
    offset = offset * tensor.shape[k] + index[k];
  }
  return tensor.values[static_cast<std::size_t>(offset)];
}

}  // namespace astatide::testing
