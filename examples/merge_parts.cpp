// Attention over two chunks of keys, each by itself, as when a prefix is shared or keys lie on two devices; then one
// kernel merges what both gave. The result is that of all keys at once.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace astatide;

static constexpr std::int64_t kHeads = 2, kRows = 50, kKeys = 70, kFirst = 48, kWidth = 16;

/// Heads by so many rows, in memory that holds `length` rows a head.
static TensorView view(float* data, std::int64_t rows, std::int64_t length) {
  return {data, ScalarType::f32, {1, kHeads, rows, kWidth}, {kHeads * length * kWidth, length * kWidth, kWidth, 1}};
}
static TensorView row_view(float* data) {
  return {data, ScalarType::f32, {1, kHeads, kRows}, {kHeads * kRows, kRows, 1}};
}

int main() try {
  Engine engine;
  const Algorithm algorithm = load_algorithm("attention");
  const BuildOptions options{Device::cpu(), ScalarType::f32, {{"D", kWidth}, {"Dv", kWidth}}, {}};
  const Executable attention = engine.build(algorithm, load_schedule("cpu/flash2"), options);
  const Executable merge = engine.build_merge(algorithm, options);

  std::vector<float> q(kHeads * kRows * kWidth), k(kHeads * kKeys * kWidth), v(k.size());
  for (std::size_t n = 0; n < q.size(); ++n) q[n] = std::sin(0.7f * static_cast<float>(n));
  for (std::size_t n = 0; n < k.size(); ++n) k[n] = std::cos(0.3f * static_cast<float>(n));
  for (std::size_t n = 0; n < v.size(); ++n) v[n] = std::sin(0.1f * static_cast<float>(n));

  // Rows of O, then their L: of both chunks, of the merge, of all keys at once.
  std::vector<std::vector<float>> o(4, std::vector<float>(q.size(), NAN)),
      l(4, std::vector<float>(kHeads * kRows, NAN));
  const auto outputs = [&](std::size_t n) {
    return std::map<std::string, TensorView>{{"O", view(o[n].data(), kRows, kRows)}, {"L", row_view(l[n].data())}};
  };
  const auto attend = [&](std::size_t n, std::int64_t first, std::int64_t keys) {
    LaunchArguments arguments;
    arguments.tensors = outputs(n);
    arguments.tensors["Q"] = view(q.data(), kRows, kRows);
    arguments.tensors["K"] = view(k.data() + first * kWidth, keys, kKeys);
    arguments.tensors["V"] = view(v.data() + first * kWidth, keys, kKeys);
    attention.launch(arguments);
  };
  attend(0, 0, kFirst);
  attend(1, kFirst, kKeys - kFirst);
  merge.launch(merge_arguments(merge, {outputs(0), outputs(1)}, outputs(2)));
  attend(3, 0, kKeys);

  float worst = 0;
  for (std::size_t n = 0; n < q.size(); ++n) worst = std::fmax(worst, std::fabs(o[2][n] - o[3][n]));
  for (std::size_t n = 0; n < l[2].size(); ++n) worst = std::fmax(worst, std::fabs(l[2][n] - l[3][n]));
  const bool ok = worst < 1e-5f && !std::isnan(o[2][0]);
  std::printf("two chunks merged and all keys at once differ by at most %.1e\n", worst);
  return ok ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
