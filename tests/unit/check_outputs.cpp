// What the oracle asks of outputs where weights are too small for a type.
#include "api/check_outputs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "runtime/host_tensor.h"

using namespace astatide;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

runtime::HostTensor tensor(ScalarType type, const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
  runtime::HostTensor out = runtime::zeros(type, shape);
  std::size_t n = 0;
  runtime::for_each_element(out, [&](std::byte* address) { runtime::store_element(type, address, values[n++]); });
  return out;
}

/// The check of the entropy of weights exp(scores) of one row, for a kernel that gives `entropy`.
OutputCheck check_entropy(const std::vector<double>& scores, double entropy, ScalarType values = ScalarType::f32) {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: entropy\nextents: [R, C]\ninputs: {A: {dims: [R, C], dtype: f32}, V: [C]}\ndefine:\n"
      "  - P[i,j] = softmax(j, A[i,j])\n"
      "  - E[i] = -sum(j, P[i,j] * log(P[i,j]))\n"
      "  - O[i] = sum(j, P[i,j] * V[j])\n"
      "outputs: [E, O]\n",
      "entropy.yaml");
  const auto count = static_cast<std::int64_t>(scores.size());
  const std::map<std::string, runtime::HostTensor> inputs{
      {"A", tensor(ScalarType::f32, {1, count}, scores)},
      {"V", tensor(values, {count}, std::vector<double>(scores.size(), 1))}};
  const std::map<std::string, runtime::HostTensor> outputs{{"E", tensor(ScalarType::f32, {1}, {entropy})}};
  return check_outputs(algorithm, {{"R", 1}, {"C", count}}, {}, inputs, outputs).front();
}

}  // namespace

TEST_CASE("a weight too small for a double may count as its limit, and no other value may stand there") {
  const std::vector<double> scores{0, 0, -2000};
  CHECK(check_entropy(scores, std::log(2.0)).ok());
  CHECK(check_entropy(scores, kNaN).ok());
  CHECK_FALSE(check_entropy(scores, std::log(2.0) + 1e-4).ok());
  CHECK_FALSE(check_entropy(scores, std::numeric_limits<double>::infinity()).ok());
}

TEST_CASE("a weight too small for f32 or f16 leaves a limit of what rounding costs, and NaN is wrong") {
  // 200 of these are nothing to f32, 30 nothing to f16.
  const std::vector<double> to_f32{0, -0.1, -0.7, -200}, to_f16{0, -0.1, -0.7, -30};
  const auto entropy_of = [](const std::vector<double>& scores) {
    double sum = 0, entropy = 0;
    for (const double score : scores) sum += std::exp(static_cast<double>(static_cast<float>(score)));
    for (const double score : scores) {
      const double weight = std::exp(static_cast<double>(static_cast<float>(score))) / sum;
      entropy -= weight * std::log(weight);
    }
    return entropy;
  };
  const OutputCheck f32 = check_entropy(to_f32, entropy_of(to_f32));
  CHECK(f32.ok());
  CHECK(f32.plain_error > 0);
  CHECK(f32.limit < 3e-6);
  // Not what rounding weights to f16 costs, which is 1e-4.
  const OutputCheck f16 = check_entropy(to_f16, entropy_of(to_f16), ScalarType::f16);
  CHECK(f16.ok());
  CHECK(f16.plain_error > 0);
  CHECK(f16.limit < 3e-6);
  CHECK_FALSE(check_entropy(to_f32, kNaN).ok());
  CHECK_FALSE(check_entropy(to_f16, kNaN, ScalarType::f16).ok());
}
