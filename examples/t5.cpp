// T5's relative bias from C++: the table of buckets by its formula, then attention of an encoder and of a decoder with
// it.
#include <astatide/astatide.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "api/check_outputs.h"

using namespace astatide;

constexpr int kBuckets = 32, kFarthest = 128;

/// The bucket of a key `distance` places behind the query (in front of it: negative). In both directions half of the
/// buckets are for what is in front.
static int bucket_of(int distance, bool both) {
  const int count = both ? kBuckets / 2 : kBuckets, first = both && distance < 0 ? count : 0;
  distance = both ? std::abs(distance) : std::max(distance, 0);
  const int exact = count / 2;
  if (distance < exact) return first + distance;
  const double far = std::log(static_cast<double>(distance) / exact) / std::log(static_cast<double>(kFarthest) / exact);
  return first + std::min(count - 1, exact + static_cast<int>(far * (count - exact)));
}

static Algorithm attention(bool both) {
  AlgorithmBuilder builder(both ? "t5" : "t5_causal");
  builder.extents({"B", "H", "Sq", "Sk", "D", "Reach", "Buckets"});
  builder.input("Q", {"B", "H", "Sq", "D"}).input("K", {"B", "H", "Sk", "D"}).input("V", {"B", "H", "Sk", "D"});
  const Expr reach = variable("Reach");
  builder.input("bucket", std::vector<Expr>{both ? 2 * reach + 1 : reach + 1}, ScalarType::i32);
  builder.input("bias", {"Buckets", "H"});
  builder.define("S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d])");
  builder.define(both ? "A[b,h,i,j] = S[b,h,i,j] + bias[bucket[min((max(j - i + Sq - Sk + Reach, 0)), 2*Reach)], h]"
                      : "A[b,h,i,j] = S[b,h,i,j] + bias[bucket[min((max(i - j + Sk - Sq, 0)), Reach)], h]"
                        " where j <= i + Sk - Sq");
  builder.define("P[b,h,i,j] = softmax(j, A[b,h,i,j])");
  builder.define("O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])");
  return builder.outputs({"O"}).build();
}

static bool runs(bool both) {
  const std::map<std::string, std::int64_t> extents = {
      {"B", 1}, {"H", 2}, {"Sq", 150}, {"Sk", 200}, {"D", 32}, {"Reach", kFarthest}, {"Buckets", kBuckets}};
  Engine engine;
  const Executable run =
      engine.build(attention(both), load_schedule("cpu/flash2"), {Device::cpu(), ScalarType::f32, extents, {}});
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  std::map<std::string, runtime::HostTensor> inputs, outputs;
  LaunchArguments arguments;
  arguments.extents = extents;
  for (const char* name : {"Q", "K", "V", "bias", "bucket", "O"}) {
    const TensorView wanted = describe_tensor(run, name, extents);
    const runtime::HostTensor tensor = runtime::zeros(wanted.dtype, wanted.shape);
    int place = both ? kFarthest : 0;  // of the table's first entry: that many places in front
    runtime::for_each_element(tensor, [&](auto* at) {
      const bool table = wanted.dtype == ScalarType::i32;
      runtime::store_element(tensor.dtype, at, table ? bucket_of(both ? place-- : place++, both) : normal(generator));
    });
    (run.algorithm().find_input(name) != nullptr ? inputs : outputs)[name] = tensor;
    arguments.tensors[name] = {tensor.origin(), tensor.dtype, tensor.shape, tensor.strides};
  }
  run.launch(arguments);
  const OutputCheck check = check_outputs(run.algorithm(), extents, {}, inputs, outputs).front();
  std::printf("%s: error %.2e, limit %.2e\n", run.algorithm().name.c_str(), check.max_abs_error, check.limit);
  return check.ok();
}

int main() try { return runs(true) && runs(false) ? 0 : 1; } catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
