// tanh.approx.f32 on a device: within what fast_math allows, and another result than without.
#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

TEST_CASE("capped scores by tanh.approx are within the contract of fast_math, and not those of tanhf") {
  ASTATIDE_NEED_GPU();
  for (const auto& [name, dtype] : {std::pair{"simt/flash2", ScalarType::f32},
                                    {"sm80/flash2", ScalarType::bf16},
                                    {"sm90/flash3", ScalarType::bf16}}) {
    INFO(name);
    Schedule schedule = load_schedule(name);
    if (std::string(name).starts_with("sm90/") && target_of(Device::cuda(0)).name != "sm_90a") continue;
    Case c;
    c.algorithm = load_algorithm("softcap_alibi");
    c.dtype = dtype;
    c.extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 200}, {"Sk", 333}, {"D", 64}, {"Dv", 64}};
    c.scalars = {{"scale", 2}};  // scores up to the cap
    fill_gaussian(c, 1);
    const HostTensors exact = run_case(c, schedule, Device::cuda(0));
    schedule.fast_math = true;
    const HostTensors fast = run_case(c, schedule, Device::cuda(0));
    CHECK(runtime::to_doubles(exact.at("L")) != runtime::to_doubles(fast.at("L")));
    for (const OutputCheck& check :
         check_outputs(c.algorithm, c.extents, c.scalars, c.inputs, fast, allowance_of(schedule, Device::cuda(0)))) {
      INFO(check.name << ": " << check.max_abs_error << " of " << check.limit);
      CHECK(check.ok());
    }
    for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, c.scalars, c.inputs, exact))
      CHECK(check.ok());
  }
}
