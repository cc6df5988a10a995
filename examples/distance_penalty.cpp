// A fusion that no library has: attention whose scores fall off with the logarithm of the distance, together with the
// entropy of each row's weights, from one pass over the keys. The schedule is built in C++ too.
#include <astatide/astatide.h>

#include <cstdio>
#include <random>

#include "api/check_outputs.h"

using namespace astatide;

static Algorithm distance_penalty() {
  AlgorithmBuilder builder("distance_penalty");
  builder.extents({"B", "H", "S", "D"});
  builder.scalar("scale", 1 / sqrt(variable("D"))).scalar("slope", Expr(0.5));
  builder.input("Q", {"B", "H", "S", "D"}).input("K", {"B", "H", "S", "D"}).input("V", {"B", "H", "S", "D"});
  builder.define("S0[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale");
  builder.define("A[b,h,i,j] = S0[b,h,i,j] - slope * log(1 + i - j) where j <= i");
  builder.define("P[b,h,i,j] = softmax(j, A[b,h,i,j])");
  builder.define("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])");
  builder.define("E[b,h,i] = -sum(j, P[b,h,i,j] * log(P[b,h,i,j]))");
  return builder.outputs({"O", "E"}).build();
}

static Schedule streaming() {
  ScheduleBuilder builder("cpu");
  builder.rewrite(RewriteMode::online);
  builder.place(
      PlacementBuilder("O").tile({{"i", 32}, {"j", 64}}).reorder({"b", "h", "i.o", "j.o"}).parallel({"i.o", "h", "b"}));
  for (const char* name : {"S0", "P"}) builder.place(PlacementBuilder(name).compute_at("j.o").store_in(Space::shared));
  builder.place(PlacementBuilder("Q").stage_at("i.o").store_in(Space::shared));
  for (const char* name : {"K", "V"}) builder.place(PlacementBuilder(name).stage_at("j.o").store_in(Space::shared));
  return builder.build();
}

int main() try {
  const std::map<std::string, std::int64_t> extents = {{"B", 2}, {"H", 3}, {"S", 200}, {"D", 32}};
  const Algorithm algorithm = distance_penalty();
  Engine engine;
  const Executable run = engine.build(algorithm, streaming(), {Device::cpu(), ScalarType::f32, extents, {}});

  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  std::map<std::string, runtime::HostTensor> inputs, outputs;
  LaunchArguments arguments;
  for (const char* name : {"Q", "K", "V", "O", "E"}) {
    const TensorView wanted = describe_tensor(run, name, extents);
    const runtime::HostTensor tensor = runtime::zeros(wanted.dtype, wanted.shape);
    runtime::for_each_element(tensor, [&](auto* at) { runtime::store_element(tensor.dtype, at, normal(generator)); });
    (algorithm.find_input(name) != nullptr ? inputs : outputs)[name] = tensor;
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  }
  run.launch(arguments);

  bool ok = true;
  for (const OutputCheck& check : check_outputs(algorithm, extents, {}, inputs, outputs)) {
    std::printf("%s: error %.2e, limit %.2e\n", check.name.c_str(), check.max_abs_error, check.limit);
    ok = ok && check.ok();
  }
  return ok ? 0 : 1;
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
