// Schedules of tensor cores: each type and mask, ragged lengths, grouped heads, head sizes that no instruction divides,
// and the same bits at every launch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "api/check_outputs.h"
#include "runtime/driver.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

bool runs_here(const std::string& schedule) {
  const runtime::DeviceFacts& device = runtime::driver().device(0);
  return !schedule.starts_with("sm90/") || device.major == 9;
}

Case make_case(bool causal, std::map<std::string, std::int64_t> extents, ScalarType dtype, unsigned seed) {
  Case c;
  c.algorithm = causal ? causal_attention() : attention();
  c.extents = std::move(extents);
  c.dtype = dtype;
  c.inputs["Q"] = gaussian(dtype, query_shape(c), seed);
  c.inputs["K"] = gaussian(dtype, key_shape(c), seed + 1);
  c.inputs["V"] = gaussian(dtype, value_shape(c), seed + 2);
  return c;
}

void require_within_contract(const Case& c, const HostTensors& outputs) {
  for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, c.scalars, c.inputs, outputs)) {
    INFO(check.name << ": " << check.max_abs_error << " of " << check.limit << ", not finite "
                    << check.wrong_nonfinite);
    REQUIRE(check.ok());
  }
}

}  // namespace

TEST_CASE("tensor cores: every schedule, type and mask at ragged lengths") {
  ASTATIDE_NEED_GPU();
  const std::vector<std::int64_t> lengths{1, 63, 64, 65, 127, 129, 1000};
  unsigned seed = 900;
  for (const std::string& schedule : tensor_core_schedule_names()) {
    if (!runs_here(schedule)) continue;
    for (const ScalarType dtype : {ScalarType::f16, ScalarType::bf16})
      for (const bool causal : {false, true})
        for (std::size_t n = 0; n < lengths.size(); ++n) {
          const std::int64_t sq = lengths[n], sk = lengths[(n * 3 + 2) % lengths.size()];
          const Case c =
              make_case(causal, {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", sq}, {"Sk", sk}, {"D", 64}, {"Dv", 64}}, dtype,
                        seed += 3);
          INFO(schedule << " " << name_of(dtype) << (causal ? " causal " : " full ") << sq << " x " << sk);
          require_within_contract(c, run_case(c, schedule, Device::cuda(0)));
        }
  }
}

TEST_CASE("tensor cores: head sizes that are padded, and Dv other than D") {
  ASTATIDE_NEED_GPU();
  unsigned seed = 400;
  for (const std::string& schedule : tensor_core_schedule_names()) {
    if (!runs_here(schedule)) continue;
    for (const auto& [d, dv] : {std::pair{8, 8}, {40, 64}, {72, 40}, {96, 96}, {128, 128}, {192, 128}, {256, 256}}) {
      const Case c = make_case(true, {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 200}, {"Sk", 333}, {"D", d}, {"Dv", dv}},
                               ScalarType::bf16, seed += 3);
      INFO(schedule << " D " << d << " Dv " << dv);
      HostTensors outputs;
      try {
        outputs = run_case(c, schedule, Device::cuda(0));
      } catch (const UserError& error) {
        // Registers or shared memory; the schedule for large heads must take them.
        INFO(error.what());
        REQUIRE(schedule != "sm90/flash3_d256");
        REQUIRE(std::max(d, dv) > (schedule == "sm90/flash3_d64" ? 64 : 128));
        continue;
      }
      require_within_contract(c, outputs);
    }
  }
}

TEST_CASE("tensor cores: 200 launches give the same bits") {
  ASTATIDE_NEED_GPU();
  for (const std::string& schedule : tensor_core_schedule_names()) {
    if (!runs_here(schedule)) continue;
    const Case c = make_case(true, {{"B", 1}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 700}, {"Sk", 900}, {"D", 64}, {"Dv", 64}},
                             ScalarType::bf16, 77);
    const HostTensors first = run_case(c, schedule, Device::cuda(0));
    for (int n = 0; n < 200; ++n) {
      const HostTensors again = run_case(c, schedule, Device::cuda(0));
      for (const auto& [name, tensor] : first) require_same_bits(again.at(name), tensor);
    }
  }
}

TEST_CASE("TMA refuses strides that it can't read, by name and number") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3")) return;
  const Case c = make_case(false, {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 64}, {"Sk", 64}, {"D", 44}, {"Dv", 64}},
                           ScalarType::bf16, 5);
  CHECK_THROWS_WITH(
      run_case(c, "sm90/flash3", Device::cuda(0)),
      Catch::Contains("Q has a stride of 44 elements = 88 bytes, tma reads strides of multiples of 16 bytes"));
}
