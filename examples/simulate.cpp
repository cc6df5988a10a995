// A schedule for Hopper without a GPU: producer, consumers, copies and products are simulated in several orders, each
// access and each wait is checked, and the numbers are right.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace astatide;

static constexpr std::int64_t kRows = 40, kKeys = 100, kWidth = 16;

static TensorView view(std::vector<float>& data, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  return {data.data(), ScalarType::f32, std::move(shape), std::move(strides)};
}

int main() try {
  Engine engine;
  const Algorithm algorithm = load_algorithm("attention");
  // f32 rounded to tf32; the inputs below are exact in it.
  const Schedule schedule = load_schedule("sm80/flash2_tf32");
  const Executable run =
      engine.build(algorithm, schedule, {Device::sim("sm_90a"), ScalarType::f32, {{"D", kWidth}, {"Dv", kWidth}}, {}});

  std::vector<float> q(kRows * kWidth, 0.25f), k(kKeys * kWidth, 0.5f), v(kKeys * kWidth), o(q.size(), NAN),
      l(kRows, NAN);
  for (std::size_t n = 0; n < v.size(); ++n) v[n] = static_cast<float>(n / kWidth % 2);
  LaunchArguments arguments;
  const auto matrix = [&](std::vector<float>& data, std::int64_t rows) {
    return view(data, {1, 1, rows, kWidth}, {rows * kWidth, rows * kWidth, kWidth, 1});
  };
  arguments.tensors = {
      {"Q", matrix(q, kRows)}, {"K", matrix(k, kKeys)}, {"V", matrix(v, kKeys)}, {"O", matrix(o, kRows)}};
  arguments.tensors["L"] = view(l, {1, 1, kRows}, {kRows, kRows, 1});

  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    const SimulationReport report = simulate(run, arguments, options);
    if (report.fault) {
      std::printf("seed %d: %s\n", static_cast<int>(seed), to_text(*report.fault).c_str());
      return 1;
    }
    if (seed == 1) std::printf("%d waits and signals, %d steps\n", report.waits, static_cast<int>(report.steps));
  }
  // All keys are alike, so each row is the mean of the values: as many ones as zeros.
  float worst = 0;
  for (const float x : o) worst = std::fmax(worst, std::fabs(x - 0.5f));
  std::printf("5 orders without a race; O is off by at most %.1e\n", static_cast<double>(worst));
  return worst < 1e-4f ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
