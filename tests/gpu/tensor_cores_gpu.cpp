// Schedules of tensor cores: each type and mask, ragged lengths, grouped heads, head sizes that no instruction divides,
// and the same bits at every launch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "api/check_outputs.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

Case make_case(bool causal, std::map<std::string, std::int64_t> extents, ScalarType dtype, unsigned seed) {
  Case c;
  c.algorithm = causal ? causal_attention() : attention();
  c.extents = std::move(extents);
  c.dtype = dtype;
  fill_gaussian(c, seed);
  return c;
}

/// What a case's outputs should be: evaluating takes longer than the launches that are compared with it.
OutputOracle oracle_of(const Case& c) {
  // Tensor cores take f32 as tf32.
  return {c.algorithm, c.extents, c.scalars, c.inputs, Allowance{c.dtype == ScalarType::f32, {}}};
}

void require_within_contract(const OutputOracle& oracle, const HostTensors& outputs) {
  for (const OutputCheck& check : oracle.check(outputs)) {
    INFO(check.name << ": " << check.max_abs_error << " of " << check.limit << ", not finite "
                    << check.wrong_nonfinite);
    REQUIRE(check.ok());
  }
}

void require_within_contract(const Case& c, const HostTensors& outputs) {
  require_within_contract(oracle_of(c), outputs);
}

/// Head sizes within those that schedules for `most` are for: Dv is another, and no instruction divides D.
std::map<std::string, std::int64_t> ragged_widths(std::int64_t most) {
  return {{"D", most - 24}, {"Dv", most / 2 + 16}};
}

std::vector<ScalarType> types_of(const std::string& schedule) {
  std::vector<ScalarType> types{ScalarType::f16, ScalarType::bf16};
  if (takes_f32(schedule)) types.push_back(ScalarType::f32);
  return types;
}

/// Schedules that run here and take the same inputs.
struct Group {
  std::vector<std::string> schedules;
  std::int64_t head_size;
  ScalarType dtype;
  std::int64_t heads;  // of queries for each of keys, where any number will do
  bool causal;

  void require_within_contract(const Case& c) const {
    const OutputOracle oracle = oracle_of(c);
    for (const std::string& schedule : schedules) {
      INFO(schedule << " " << name_of(dtype) << (causal ? " causal " : " full ") << c.extents.at("Sq") << " x "
                    << c.extents.at("Sk"));
      ::require_within_contract(oracle, run_case(c, schedule, Device::cuda(0)));
    }
  }
};

/// Every schedule that runs here, type and mask.
std::vector<Group> groups() {
  std::map<std::tuple<std::int64_t, ScalarType, std::int64_t>, std::vector<std::string>> schedules;
  for (const std::string& schedule : tensor_core_schedule_names())
    if (runs_here(schedule))
      for (const ScalarType dtype : types_of(schedule))
        schedules[{head_size_of(schedule), dtype, group_of(schedule)}].push_back(schedule);
  std::vector<Group> out;
  for (const auto& [inputs, names] : schedules)
    for (const bool causal : {false, true})
      out.push_back({names, std::get<0>(inputs), std::get<1>(inputs), std::get<2>(inputs), causal});
  return out;
}

}  // namespace

TEST_CASE("tensor cores: every schedule, type and mask at ragged lengths") {
  ASTATIDE_NEED_GPU();
  // Each length beside a shorter and a longer one; the longest are compared in a test of their own.
  const std::vector<std::pair<std::int64_t, std::int64_t>> lengths{
      {1, 1}, {1, 1000}, {63, 65}, {64, 64}, {65, 1}, {127, 129}, {129, 63}, {127, 1000}, {1000, 127}, {1000, 64}};
  unsigned seed = 900;
  for (const Group& group : groups())
    for (const auto& [sq, sk] : lengths) {
      std::map<std::string, std::int64_t> extents = ragged_widths(group.head_size);
      extents.insert({{"B", 2}, {"Hq", group.heads}, {"Hkv", 1}, {"Sq", sq}, {"Sk", sk}});
      group.require_within_contract(make_case(group.causal, std::move(extents), group.dtype, seed += 3));
    }
}

TEST_CASE("tensor cores: consumers that take turns, and exponentials by polynomials, at ragged lengths") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/")) ASTATIDE_SKIP("turns are of warpgroups, which are of sm_90a");
  unsigned seed = 2500;
  for (const Turns& turns :
       {Turns{"plain", "", 2, 1, false, "1/4", 128}, Turns{"plain", "0", 3, 2, true, "1", 64},
        Turns{"lazy", "", 3, 2, true, "1/2", 64}, Turns{"lazy", "1", 2, 2, true, "1/2", 128},
        Turns{"optimistic", "", 2, 2, true, "1/8", 128}, Turns{"optimistic", "1/2", 2, 2, false, "3/4", 128}})
    for (const bool causal : {false, true})
      for (const auto& [sq, sk] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {1, 1}, {65, 1}, {129, 63}, {127, 1000}, {1000, 64}, {1000, 700}}) {
        INFO(sq << " x " << sk << (causal ? " causal\n" : "\n") << turns.text());
        std::map<std::string, std::int64_t> extents{{"D", 104}, {"Dv", 80}};
        extents.insert({{"B", 2}, {"Hq", 6}, {"Hkv", 2}, {"Sq", sq}, {"Sk", sk}});
        const Case c = make_case(causal, std::move(extents), ScalarType::bf16, seed += 3);
        require_within_contract(c, run_case(c, parse_schedule(turns.text(), "turns.yaml"), Device::cuda(0)));
      }
}

TEST_CASE("tensor cores: every schedule at lengths of 4097") {
  ASTATIDE_NEED_GPU();
  unsigned seed = 2900;
  for (const Group& group : groups()) {
    // The comparison takes seconds: two of the four builds. With more rows than keys the mask leaves rows empty.
    std::vector<std::pair<std::int64_t, std::int64_t>> lengths;
    if (group.dtype == ScalarType::f16 && !group.causal) lengths = {{129, 4097}};
    if (group.dtype != ScalarType::f16 && group.causal) lengths = {{4097, 129}, {4097, 4097}};
    for (const auto& [sq, sk] : lengths) {
      std::map<std::string, std::int64_t> extents = ragged_widths(group.head_size);
      extents.insert({{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", sq}, {"Sk", sk}});
      group.require_within_contract(make_case(group.causal, std::move(extents), group.dtype, seed += 3));
    }
  }
}

TEST_CASE("tensor cores: head sizes that are padded, and Dv other than D") {
  ASTATIDE_NEED_GPU();
  unsigned seed = 400;
  for (const ScalarType dtype : {ScalarType::bf16, ScalarType::f32})
    for (const auto& [d, dv] : {std::pair{8, 8}, {40, 64}, {72, 40}, {96, 96}, {128, 128}, {192, 128}, {256, 256}}) {
      const Case c = make_case(true, {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 200}, {"Sk", 333}, {"D", d}, {"Dv", dv}},
                               dtype, seed += 3);
      const OutputOracle oracle = oracle_of(c);
      for (const std::string& schedule : tensor_core_schedule_names()) {
        if (!runs_here(schedule) || types_of(schedule).back() != dtype) continue;
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
        require_within_contract(oracle, outputs);
      }
    }
}

TEST_CASE("tensor cores: clusters of two and four blocks, that stay or not, in each mode") {
  ASTATIDE_NEED_GPU();
  if (!runs_here("sm90/flash3_cluster")) return;
  const std::string text = shipped_schedule("sm90/flash3_cluster");
  unsigned seed = 5000;
  for (const char* blocks : {"cluster: 2", "cluster: 4"})
    for (const char* walk : {"", ", persistent: linear", ", persistent: longest_first"})
      for (const char* mode : {"rescale: plain", "rescale: lazy", "rescale: optimistic"}) {
        // Which blocks there are and how references move do not meet: each mode under one walk.
        if (*walk != '\0' && mode != std::string_view("rescale: optimistic")) continue;
        const std::string changed = with(with(with(text, "cluster: 2", blocks), ", persistent: longest_first", walk),
                                         "rescale: optimistic", mode);
        INFO(changed);
        const Schedule schedule = parse_schedule(changed, "cluster.yaml");
        // One tile, a whole cluster, one tile more, and enough of them that blocks stay; rows that see nothing.
        for (const auto& [sq, sk] : {std::pair{100, 300}, {256, 256}, {513, 700}, {7000, 200}, {900, 40}, {300, 0}})
          for (const bool causal : {false, true}) {
            INFO(sq << " x " << sk << (causal ? " causal" : ""));
            const Case c =
                make_case(causal, {{"B", 1}, {"Hq", 3}, {"Hkv", 1}, {"Sq", sq}, {"Sk", sk}, {"D", 128}, {"Dv", 128}},
                          ScalarType::bf16, seed += 3);
            require_within_contract(c, run_case(c, schedule, Device::cuda(0)));
          }
      }
}

TEST_CASE("tensor cores: keys in parts, copied by each warp or by a producer, in each mode") {
  ASTATIDE_NEED_GPU();
  const std::string chosen = shipped_schedule("sm80/decode");
  std::vector<std::string> texts{chosen, with(chosen, "[j.s, auto]}, merge: last_block", "[j.s, 32]}"),
                                 with(chosen, "[j.s, auto]", "[j.s, {split_size: 48}]")};
  if (runs_here("sm90/flash3")) {
    const std::string parts =
        with(with(with(shipped_schedule("sm90/flash3"), ", persistent: longest_first", ""), "reorder: [b, h, i.o, j.o]",
                  "rfactor: {j: [j.s, 7]}, reorder: [b, h, j.s, i.o, j.o]"),
             "gpu_blocks: [i.o, h, b]", "gpu_blocks: [i.o, j.s, h, b]");
    texts.push_back(parts);
    texts.push_back(with(parts, "rfactor", "cluster: 2, rfactor"));
    texts.push_back(with(parts, "7]}", "auto]}, merge: last_block"));
    texts.push_back(with(parts, "7]}", "{split_size: 256}]}, merge: last_block"));
    texts.push_back(shipped_schedule("sm90/decode"));
  }
  unsigned seed = 9000;
  for (const std::string& text : texts)
    for (const char* mode : {"rescale: plain", "rescale: lazy", "rescale: optimistic"}) {
      const Schedule schedule = parse_schedule(with(text, "rescale: optimistic", mode), "parts.yaml");
      INFO(print_schedule(schedule));
      // No key, fewer tiles than parts and more, ragged ones; rows that see nothing.
      for (const auto& [sq, sk] : {std::pair{1, 0}, {1, 1}, {1, 5000}, {16, 128}, {17, 1111}, {300, 2000}, {200, 40}})
        for (const bool causal : {false, true}) {
          INFO(sq << " x " << sk << (causal ? " causal" : ""));
          const Case c =
              make_case(causal, {{"B", 2}, {"Hq", 4}, {"Hkv", 2}, {"Sq", sq}, {"Sk", sk}, {"D", 128}, {"Dv", 128}},
                        ScalarType::bf16, seed += 3);
          require_within_contract(c, run_case(c, schedule, Device::cuda(0)));
        }
    }
}

TEST_CASE("tensor cores: 200 launches give the same bits") {
  ASTATIDE_NEED_GPU();
  for (const std::string& schedule : tensor_core_schedule_names()) {
    if (!runs_here(schedule)) continue;
    const std::int64_t width = head_size_of(schedule);
    const Case c =
        make_case(true, {{"B", 1}, {"Hq", 8}, {"Hkv", 2}, {"Sq", 700}, {"Sk", 900}, {"D", width}, {"Dv", width}},
                  types_of(schedule).back(), 77);
    INFO(schedule);
    const HostTensors first = run_case(c, schedule, Device::cuda(0));
    for (int n = 0; n < 200; ++n) {
      const HostTensors again = run_case(c, schedule, Device::cuda(0));
      for (const auto& [name, tensor] : first) require_same_bits(again.at(name), tensor);
    }
  }
}

TEST_CASE("tensor cores: Q held in registers gives the same bits as Q read from shared memory") {
  ASTATIDE_NEED_GPU();
  for (const char* schedule : {"sm80/flash2_d64", "sm90/flash2_wgmma", "sm90/flash3_plain", "sm90/flash3"}) {
    if (!runs_here(schedule)) continue;
    const std::string text = shipped_schedule(schedule);
    const Schedule held = parse_schedule(
        with(text, "Q: {stage_at: i.o, store_in: shared", "Q: {stage_at: i.o, store_in: [shared, register]"), "held");
    for (const auto& [sq, sk] : {std::pair{1, 1}, {127, 1000}, {1000, 64}, {4097, 129}}) {
      INFO(schedule << " " << sq << " x " << sk);
      const Case c = make_case(true, {{"B", 2}, {"Hq", 8}, {"Hkv", 2}, {"Sq", sq}, {"Sk", sk}, {"D", 64}, {"Dv", 64}},
                               ScalarType::bf16, 3100);
      const HostTensors expected = run_case(c, schedule, Device::cuda(0));
      // The slot is filled again while others still read: a race would show now and then.
      for (int n = 0; n < 20; ++n) {
        const HostTensors outputs = run_case(c, held, Device::cuda(0));
        for (const auto& [name, tensor] : expected) require_same_bits(outputs.at(name), tensor);
      }
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
