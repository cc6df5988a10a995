// Sequences of unequal lengths, packed one after the other: declared in C++, launched on the CPU, with a second batch
// of other lengths that compiles nothing and one whose offsets are refused. Results are checked by hand.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace astatide;

static Algorithm ragged_attention() {
  AlgorithmBuilder builder("ragged_attention");
  builder.extents({"B", "H", "Longest", "Tokens", "D"}).scalar("scale", 1 / sqrt(variable("D")));
  builder.input("Q", {"Tokens", "H", "D"}).input("K", {"Tokens", "H", "D"}).input("V", {"Tokens", "H", "D"});
  // Sequence b has the tokens from offset[b] to offset[b+1].
  builder.input("offset", {"B + 1"}, ScalarType::i32).monotone("offset");
  const Expr b = variable("b"), length = read("offset", {b + 1}) - read("offset", {b});
  builder.axis("b", variable("B"));
  for (const char* axis : {"i", "j"}) builder.axis(axis, less_equal(length, variable("Longest")));
  builder.define("S[b,h,i,j] = sum(d, Q[offset[b] + i, h, d] * K[offset[b] + j, h, d]) * scale where j <= i");
  builder.define("P[b,h,i,j] = softmax(j, S[b,h,i,j])");
  builder.define("O[offset[b] + i, h, e] = sum(j, P[b,h,i,j] * V[offset[b] + j, h, e])");
  return builder.output("O", {"Tokens", "H", "D"}).build();
}

/// All scores are equal and V holds the place of a token in its sequence, so row i of O is the mean of 0 .. i. The
/// largest error.
static float worst_of(const Executable& run, std::vector<std::int32_t> offset) {
  const std::int64_t h = 2, d = 16, tokens = offset.back();
  std::vector<float> q(tokens * h * d, 0), k(tokens * h * d, 1), v(tokens * h * d), o(tokens * h * d, NAN);
  std::vector<float> place;
  for (std::size_t b = 0; b + 1 < offset.size(); ++b)
    for (std::int32_t i = 0; i < offset[b + 1] - offset[b]; ++i) place.push_back(static_cast<float>(i));
  for (std::size_t n = 0; n < v.size() && n / (h * d) < place.size(); ++n) v[n] = place[n / (h * d)];
  const auto view = [&](std::vector<float>& data) {
    return TensorView{data.data(), ScalarType::f32, {tokens, h, d}, {h * d, d, 1}};
  };
  LaunchArguments arguments;
  arguments.tensors = {{"Q", view(q)}, {"K", view(k)}, {"V", view(v)}, {"O", view(o)}};
  arguments.tensors["offset"] = {
      offset.data(), ScalarType::i32, {static_cast<std::int64_t>(offset.size())}, {std::int64_t{1}}};
  arguments.extents = {{"B", static_cast<std::int64_t>(offset.size()) - 1}, {"Longest", 100}};
  arguments.check_indices = true;  // on a GPU offsets are the caller's promise without it
  run.launch(arguments);
  float worst = 0;
  for (std::size_t n = 0; n < o.size(); ++n)
    worst = std::fmax(worst, std::isnan(o[n]) ? INFINITY : std::fabs(o[n] - place[n / (h * d)] / 2));
  return worst;
}

int main() try {
  Engine engine;
  const Executable run =
      engine.build(ragged_attention(), load_schedule("cpu/flash2"), {Device::cpu(), ScalarType::f32, {{"D", 16}}, {}});
  const float first = worst_of(run, {0, 7, 7, 77, 80}), second = worst_of(run, {0, 100});
  std::printf("sequences of 7, 0, 70 and 3 tokens within %.1e, of 100 within %.1e\n", first, second);
  try {
    worst_of(run, {0, 50, 40, 60});
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
    return first < 1e-4f && second < 1e-4f && std::strstr(error.what(), "decreases from 50 to 40") ? 0 : 1;
  }
  return 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
