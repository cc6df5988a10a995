// Declares an algorithm and a schedule in C++, compiles, launches on the CPU, and checks two results by hand.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace astatide;

static Algorithm cross_attention() {
  AlgorithmBuilder builder("cross_attention");
  builder.extents({"B", "H", "Sq", "Sk", "D"});
  builder.scalar("scale", 1 / sqrt(variable("D")));
  builder.input("Q", {"B", "H", "Sq", "D"}).input("K", {"B", "H", "Sk", "D"}).input("V", {"B", "H", "Sk", "D"});
  builder.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale");
  builder.define("P[b,h,i,j] = softmax(j, S[b,h,i,j])");
  builder.define("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])");
  return builder.outputs({"O"}).build();
}

static Schedule streaming() {
  ScheduleBuilder builder("cpu");
  builder.rewrite(RewriteMode::online);
  builder.place(
      PlacementBuilder("O").tile({{"i", 32}, {"j", 64}}).reorder({"b", "h", "i.o", "j.o"}).parallel({"i.o", "h", "b"}));
  for (const char* name : {"S", "P"}) builder.place(PlacementBuilder(name).compute_at("j.o").store_in(Space::shared));
  builder.place(PlacementBuilder("Q").stage_at("i.o").store_in(Space::shared));
  for (const char* name : {"K", "V"}) builder.place(PlacementBuilder(name).stage_at("j.o").store_in(Space::shared));
  return builder.build();
}

int main() try {
  const std::int64_t b = 1, h = 2, rows = 50, keys = 70, d = 16;
  Engine engine;
  const Executable run = engine.build(cross_attention(), streaming(), {Device::cpu(), ScalarType::f32, {{"D", d}}, {}});

  // All scores are equal, so every row of O is the mean of V's rows.
  std::vector<float> q(b * h * rows * d, 0), k(b * h * keys * d, 1), v(b * h * keys * d), o(b * h * rows * d, NAN);
  for (std::size_t n = 0; n < v.size(); ++n) v[n] = static_cast<float>(n / d % keys);
  const auto view = [&](std::vector<float>& data, std::int64_t length) {
    return TensorView{data.data(), ScalarType::f32, {b, h, length, d}, {h * length * d, length * d, d, 1}};
  };
  LaunchArguments arguments;
  arguments.tensors = {{"Q", view(q, rows)}, {"K", view(k, keys)}, {"V", view(v, keys)}, {"O", view(o, rows)}};
  run.launch(arguments);

  const float mean = (keys - 1) / 2.0f;
  float worst = 0;
  for (const float value : o) worst = std::fmax(worst, std::isnan(value) ? INFINITY : std::fabs(value - mean));
  std::printf("every row of O is %g, within %.1e; compiled in %.0f ms\n", mean, worst, run.report().compile_ms);
  return worst < 1e-4f ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
