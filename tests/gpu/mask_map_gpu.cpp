// Maps of dense masks on a device, under multiply-adds, mma.sync and warpgroups with a producer.
#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

TEST_CASE("a map of a dense mask gives on a device what the mask gives") {
  ASTATIDE_NEED_GPU();
  const auto runs = [](const std::string& name, ScalarType dtype, std::int64_t rows, std::int64_t columns,
                       const auto& sees) {
    if (name.starts_with("sm90/") && target_of(Device::cuda(0)).name != "sm_90a") return;
    INFO(name << ", " << rows << " by " << columns);
    Schedule schedule = load_schedule(name);
    for (Placement& placement : schedule.placements)
      if (placement.name == "O") placement.directives.push_back({DirectiveKind::mask_map, true, {}});
    Case c;
    c.algorithm = load_algorithm("dense_mask");
    c.dtype = dtype;
    c.extents = {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", rows}, {"Sk", columns}, {"D", 64}, {"Dv", 64}};
    fill_gaussian(c, 1);
    c.inputs["visible"] = filled(ScalarType::boolean, {2, rows, columns},
                                 [&](const Index& at) { return sees(at[1] + 50 * at[0], at[2]) ? 1.0 : 0.0; });
    const HostTensors outputs = run_case(c, schedule, Device::cuda(0));
    for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs)) {
      INFO(check.name << " error " << check.max_abs_error << " of " << check.limit << ", not finite "
                      << check.wrong_nonfinite);
      CHECK(check.ok());
    }
  };
  for (const auto& [name, dtype] : {std::pair{"simt/flash2", ScalarType::f32},
                                    {"sm80/flash2", ScalarType::bf16},
                                    {"sm90/flash2_wgmma", ScalarType::f16},
                                    {"sm90/flash3_plain", ScalarType::bf16},
                                    {"sm90/flash3", ScalarType::bf16}}) {
    runs(name, dtype, 700, 1300, [](std::int64_t i, std::int64_t j) { return (i / 150 + j / 200) % 3 == 0; });
    runs(name, dtype, 333, 517, [](std::int64_t i, std::int64_t j) { return (i * 7919 + j * 104729) % 11 < 4; });
    runs(name, dtype, 1, 130, [](std::int64_t, std::int64_t j) { return j == 129; });
    runs(name, dtype, 140, 300, [](std::int64_t, std::int64_t) { return false; });
    runs(name, dtype, 256, 256, [](std::int64_t, std::int64_t) { return true; });
  }
}
