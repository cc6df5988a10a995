// Rows of query heads and queries, on each unit of a GPU and by each copy.

#include <catch2/catch.hpp>

#include "tests/gpu/device_case.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;
using Catch::Matchers::Contains;

namespace {

Case grouped(bool causal, ScalarType dtype, int heads, int groups, int queries, int keys, std::int64_t width,
             unsigned seed) {
  Case c;
  c.algorithm = causal ? causal_attention() : attention();
  c.extents = {{"B", 2}, {"Hq", heads}, {"Hkv", groups}, {"Sq", queries}, {"Sk", keys}, {"D", width}, {"Dv", width}};
  c.dtype = dtype;
  c.inputs["Q"] = gaussian(dtype, query_shape(c), seed);
  c.inputs["K"] = gaussian(dtype, key_shape(c), seed + 1);
  c.inputs["V"] = gaussian(dtype, value_shape(c), seed + 2);
  return c;
}

void require_close(const HostTensors& found, const HostTensors& expected, double tolerance) {
  for (const auto& [name, tensor] : expected)
    require_values(
        found.at(name), [&](const Index& at) { return runtime::get(tensor, at); },
        [tolerance](double value) { return tolerance * std::max(1.0, std::fabs(value)); });
}

/// Prefill over rows of groups: flash3 with fused rows, also with an output that TMA stores.
std::string over_groups(const std::string& schedule) {
  std::string text =
      with(shipped_schedule(schedule), "tile: {i: ", "split: {h: [hk, g]}, fuse: {r: [g, i]}, tile: {r: ");
  text = with(text, "[b, h, i.o, j.o]", "[b, hk, r.o, j.o]");
  text = with(text, "[i.o, h, b]", "[r.o, hk, b]");
  return with(text, "stage_at: i.o", "stage_at: r.o");
}

const std::vector<std::pair<int, int>> kLengths = {{1, 1}, {1, 3000}, {2, 0}, {3, 200}, {16, 1025}, {40, 7}};

}  // namespace

TEST_CASE("fused rows: decoding gives what each head by itself does") {
  ASTATIDE_NEED_GPU();
  unsigned seed = 70;
  for (const char* schedule : {"simt/decode_gqa", "sm80/decode_gqa", "sm90/decode_gqa"}) {
    if (!runs_here(schedule)) continue;
    const bool by_tma = std::string(schedule).starts_with("sm90/");
    for (const auto& [heads, groups] : {std::pair{4, 4}, {8, 4}, {8, 2}, {8, 1}, {16, 1}, {6, 2}, {10, 2}})
      for (const auto& [sq, sk] : kLengths)
        for (const bool causal : {false, true}) {
          if (by_tma && 64 % (heads / groups) != 0) continue;
          INFO(schedule << " Hq " << heads << " Hkv " << groups << " Sq " << sq << " Sk " << sk << " causal "
                        << causal);
          const Case c = grouped(causal, ScalarType::bf16, heads, groups, sq, sk, 128, seed += 3);
          require_close(run_case(c, schedule, Device::cuda(0)), run_case(c, "simt/flash2", Device::cuda(0)), 1.6e-2);
        }
  }
}

TEST_CASE("fused rows: tiles of groups are copied by tma, and stored by it") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3")) ASTATIDE_SKIP("no GPU of sm_90a, which has tma");
  unsigned seed = 700;
  for (const char* name : {"sm90/flash3_plain", "sm90/flash3", "sm90/flash3_tma_store"}) {
    const Schedule schedule = parse_schedule(over_groups(name), "groups.yaml");
    for (const auto& [heads, groups] : {std::pair{2, 2}, {8, 2}, {16, 1}})
      for (const auto& [sq, sk] : {std::pair{1, 100}, {70, 333}, {300, 300}, {129, 40}}) {
        INFO(name << " Hq " << heads << " Hkv " << groups << " Sq " << sq << " Sk " << sk);
        const Case c = grouped(true, ScalarType::bf16, heads, groups, sq, sk, 128, seed += 3);
        require_close(run_case(c, schedule, Device::cuda(0)), run_case(c, "simt/flash2", Device::cuda(0)), 1.6e-2);
      }
  }
}

TEST_CASE("fused rows: a group that is no part of a box is refused by name and number") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/decode_gqa")) ASTATIDE_SKIP("no GPU of sm_90a, which has tma");
  const Case c = grouped(true, ScalarType::bf16, 6, 2, 1, 100, 128, 5);
  CHECK_THROWS_WITH(run_case(c, "sm90/decode_gqa", Device::cuda(0)),
                    Contains("tma copies 64 rows of Q at a time, which Hq/Hkv = 3 does not divide"));
}

TEST_CASE("fused rows: heads beside each other in memory, as models have them") {
  ASTATIDE_NEED_GPU();
  for (const char* schedule : {"simt/decode_gqa", "sm80/decode_gqa", "sm90/decode_gqa"}) {
    if (!runs_here(schedule)) continue;
    INFO(schedule);
    const Case dense = grouped(true, ScalarType::bf16, 8, 2, 5, 300, 64, 900);
    Case c = dense;
    // [B, S, H, D]
    c.inputs["Q"] = with_strides(dense.inputs.at("Q"), {5 * 8 * 64, 64, 8 * 64, 1});
    c.inputs["K"] = with_strides(dense.inputs.at("K"), {300 * 2 * 64, 64, 2 * 64, 1});
    const HostTensors expected = run_case(dense, schedule, Device::cuda(0));
    const HostTensors found = run_case(c, schedule, Device::cuda(0));
    for (const auto& [name, tensor] : expected) require_same_bits(found.at(name), tensor);
  }
}
