// Any algorithm under any schedule for GPUs has the evaluator's values. ASTATIDE_SEED=N runs one draw again,
// ASTATIDE_DRAWS=N makes so many comparisons.

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/gpu/require_gpu.h"
#include "tests/support/random_draws.h"

namespace astatide::testing {

TEST_CASE("random algorithms under random schedules equal the evaluator on the GPU") {
  ASTATIDE_NEED_GPU();
  DrawOptions options;
  options.device = Device::cuda(0);
  for (const std::string& name : shipped_schedules())
    if (!name.starts_with("cpu/") && runs_here(name)) options.schedules.push_back(name);
  options.wanted = 2000;
  options.lengths = 4;
  // Compilations take the time.
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 32U));
  options.command = "test_gpu 'random algorithms under random schedules equal the evaluator on the GPU'";
  check_draws(options);
}

}  // namespace astatide::testing
