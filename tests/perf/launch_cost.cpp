// What a launch costs the host beside the driver: on a driver that does nothing. The same on a GPU is in tests/gpu.
#include "tests/support/launch_cost.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/support/case_run.h"
#include "tests/support/fake_launch.h"
#include "tests/support/skip.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

[[maybe_unused]] const bool is_fake = (::setenv("ASTATIDE_FAKE_TRUSTS", "1", 1), use_fake_driver(), true);

}  // namespace

TEST_CASE("host time of warm and of new launches without the driver's own") {
  if (const std::string missing = missing_nvrtc(); !missing.empty()) ASTATIDE_SKIP(missing);
  const Algorithm algorithm = load_algorithm("causal_gqa");
  const auto sizes = [](std::int64_t length_q, std::int64_t length_kv) {
    return std::map<std::string, std::int64_t>{{"B", 2},          {"Hq", 8},  {"Hkv", 2}, {"Sq", length_q},
                                               {"Sk", length_kv}, {"D", 128}, {"Dv", 128}};
  };
  for (const char* schedule : {"simt/flash2", "sm90/flash3", "sm90/decode_gqa"}) {
    const Executable executable =
        case_engine().build(algorithm, load_schedule(schedule), {Device::cuda(0), ScalarType::bf16, sizes(1, 1), {}});
    std::vector<LaunchArguments> layers, shapes;
    for (std::uint64_t n = 0; n < 32; ++n) {
      layers.push_back(fake_arguments(executable, sizes(16, 4096), n));
      shapes.push_back(fake_arguments(executable, sizes(16, 4096 + 64 * static_cast<std::int64_t>(n)), n));
    }
    const auto print = [&](const char* what, const std::vector<LaunchArguments>& launches) {
      const LaunchCost cost = launch_cost(executable, launches, 200, [] {});
      std::printf("%-16s %zu kernels, %s: %.2f us median, %.2f us least\n", schedule,
                  executable.program().kernels.size(), what, cost.median_us, cost.least_us);
    };
    print("32 layers", layers);
    print("32 shapes in turn", shapes);
  }
}
