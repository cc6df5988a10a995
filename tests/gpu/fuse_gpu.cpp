// Rows of query heads and queries, on each unit of a GPU and by each copy.

#include <array>
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
  fill_gaussian(c, seed);
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

constexpr std::array kDecodeSchedules = {"simt/decode_gqa", "sm80/decode_gqa", "sm90/decode_gqa",
                                         "sm90/decode_gqa_teams", "sm90/decode_gqa_short"};

const std::vector<std::pair<int, int>> kLengths = {{1, 1}, {1, 3000}, {2, 0}, {3, 200}, {16, 1025}, {40, 7}};

}  // namespace

TEST_CASE("fused rows: decoding gives what each head by itself does") {
  ASTATIDE_NEED_GPU();
  unsigned seed = 70;
  for (const char* schedule : kDecodeSchedules) {
    if (!runs_here(schedule)) continue;
    const bool by_tma = std::string(schedule) == "sm90/decode_gqa";
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

TEST_CASE("teams: of one warp and of several, on multiply-adds and tensor cores, give what blocks by themselves do") {
  ASTATIDE_NEED_GPU();
  struct Form {
    std::string threads, tile, parts, merge, cores;
  };
  const std::vector<Form> forms = {{"8, 4", "r: 16, j: 32", "auto, j.w, 4", "last_block", "mma: mma_sync"},
                                   {"16, 4", "r: 32, j: 16", "3, j.w, 5", "kernel", "mma: mma_sync"},
                                   {"8, 8", "r: 16, j: 32", "{split_size: 256}, j.w, 2", "last_block", ""},
                                   {"1, 32", "r: 4, j: 32", "2, j.w, 3", "last_block", ""}};
  unsigned seed = 1100;
  for (const Form& form : forms) {
    const bool mma = !form.cores.empty();
    const std::string copy = mma ? ", copy: cp_async" : "", ring = mma ? ", ring_buffer: 3" : "";
    const Schedule schedule = parse_schedule(
        "target: sm_80\nrewrite: {online: {rescale: optimistic}}\nO: {split: {h: [hk, g]}, fuse: {r: [g, i]}, tile: {" +
            form.tile + "}, rfactor: {j: [j.s, " + form.parts + "]}, merge: " + form.merge +
            ", reorder: [b, hk, r.o, j.s, j.w, j.o], gpu_blocks: [j.s, r.o, hk, b], threads: [" + form.threads +
            "]}\nS: {compute_at: j.o, store_in: register" + (mma ? ", " + form.cores : "") +
            "}\nP: {compute_at: j.o, store_in: " + (mma ? "register" : "shared") + "}\nQ: {stage_at: j.w" + copy +
            "}\nK: {stage_at: j.o" + copy + ring + "}\nV: {stage_at: j.o" + copy + ring + "}\n",
        "teams.yaml");
    for (const auto& [heads, groups] : {std::pair{8, 2}, {6, 2}})
      for (const auto& [sq, sk] : kLengths) {
        INFO(print_schedule(schedule) << " Hq " << heads << " Sq " << sq << " Sk " << sk);
        const Case c = grouped(true, ScalarType::bf16, heads, groups, sq, sk, 64, seed += 3);
        require_close(run_case(c, schedule, Device::cuda(0)), run_case(c, "simt/flash2", Device::cuda(0)), 1.6e-2);
      }
  }
}

TEST_CASE("fused rows: heads beside each other in memory, as models have them") {
  ASTATIDE_NEED_GPU();
  for (const char* schedule : kDecodeSchedules) {
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
