// What a launch costs the host, the driver's part with it. Prints numbers, and fails on none.
#include <catch2/catch.hpp>
#include <cstdio>
#include <list>

#include "tests/gpu/device_tensor.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/launch_cost.h"

using namespace astatide;
using namespace astatide::testing;

TEST_CASE("host time of warm launches, with that of the driver") {
  ASTATIDE_NEED_GPU();
  const runtime::Context context = runtime::Context::primary(0);
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  const std::map<std::string, std::int64_t> sizes = {{"B", 1},   {"Hq", 8},  {"Hkv", 2}, {"Sq", 16},
                                                     {"Sk", 64}, {"D", 128}, {"Dv", 128}};
  for (const char* schedule : {"simt/flash2", "sm80/flash2", "sm90/flash3", "sm90/decode_gqa"}) {
    if (!runs_here(schedule)) continue;
    const Executable executable = case_engine().build(load_algorithm("causal_gqa"), load_schedule(schedule),
                                                      {Device::cuda(0), ScalarType::bf16, sizes, {}});
    std::vector<LaunchArguments> layers(32);
    std::list<DeviceTensor> memory;
    for (LaunchArguments& layer : layers) {
      for (const char* name : {"Q", "K", "V", "O", "L"}) {
        const TensorView view = describe_tensor(executable, name, sizes);
        layer.tensors[name] = memory.emplace_back(context, view.dtype, view.shape).view();
        memory.back().buffer().fill(std::byte{0x3c}, stream);
      }
      layer.stream = stream.handle();
    }
    const LaunchCost cost = launch_cost(executable, layers, 100, [&] { stream.synchronize(); });
    std::printf("%-16s %zu kernels: %.2f us median, %.2f us least\n", schedule, executable.program().kernels.size(),
                cost.median_us, cost.least_us);
  }
}
