// One row of queries against many keys, which schedules take in parts of many sizes: into how many changes no value.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/case_run.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// Parts of so many keys.
Schedule in_parts_of(std::int64_t keys) {
  return parse_schedule("target: sm_80\nrewrite: online\nO: {tile: {i: 16, j: " + std::to_string(keys) +
                            "}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [8, 8]}\n"
                            "S: {compute_at: j.o, store_in: register}\n"
                            "P: {compute_at: j.o, store_in: shared}\n"
                            "Q: {stage_at: i.o, store_in: shared}\n"
                            "K: {stage_at: j.o, store_in: shared}\n"
                            "V: {stage_at: j.o, store_in: shared}\n",
                        "parts.yaml");
}

/// The keys split as `rfactor` says, and merged by a second kernel or by the last block.
Schedule split(const std::string& how, bool by_last_block) {
  return parse_schedule("target: sm_80\nrewrite: online\nO: {tile: {i: 16, j: 16}, rfactor: {j: [j.s, " + how + "]}, " +
                            (by_last_block ? "merge: last_block, " : "") +
                            "reorder: [b, h, i.o, j.s, j.o], gpu_blocks: [j.s, i.o, h, b], threads: [8, 8]}\n"
                            "S: {compute_at: j.o, store_in: register}\n"
                            "P: {compute_at: j.o, store_in: shared}\n"
                            "Q: {stage_at: j.s, store_in: shared}\n"
                            "K: {stage_at: j.o, store_in: shared}\n"
                            "V: {stage_at: j.o, store_in: shared}\n",
                        "split.yaml");
}

/// Numbers of parts, from the machine and from a size; each with one of the two ways to merge them.
std::map<std::string, Schedule> splits() {
  return {{"2 parts", split("2", true)},
          {"9 parts", split("9", false)},
          {"parts of 64", split("{split_size: 64}", true)},
          {"parts for the machine", split("auto", true)}};
}

/// A score without a key for each head; where `capped`, the others are capped in front of the mask.
Algorithm with_sink(const std::string& seen, bool capped) {
  const std::string score = capped ? "tanh(S[b,h,i,j] / 2) * 2" : "S[b,h,i,j]";
  return parse_algorithm(
      "algorithm: sink\n"
      "extents: [B, Hq, Hkv, Sq, Sk, D, Dv]\n"
      "scalars: {scale: 1/sqrt(D)}\n"
      "inputs: {Q: [B, Hq, Sq, D], K: [B, Hkv, Sk, D], V: [B, Hkv, Sk, Dv], sink: [Hq]}\n"
      "define:\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b, h*Hkv/Hq, j, d]) * scale\n"
      "  - A[b,h,i,j] = " +
          score + " where " + seen +
          "\n"
          "  - M[b,h,i] = max(max(j, A[b,h,i,j]), sink[h])\n"
          "  - Z[b,h,i] = sum(j, exp(A[b,h,i,j] - M[b,h,i])) + exp(sink[h] - M[b,h,i])\n"
          "  - P[b,h,i,j] = exp(A[b,h,i,j] - M[b,h,i]) / Z[b,h,i]\n"
          "  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b, h*Hkv/Hq, j, e])\n"
          "  - L[b,h,i] = M[b,h,i] + log(Z[b,h,i])\n"
          "outputs: [O, L]\n",
      "sink.yaml");
}

}  // namespace

TEST_CASE("N08: a sink enters the sum once, also where the first parts or all are hidden") {
  // ROCm/rocm-libraries#12227: an empty first part published it, and the first with keys counted it again.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const bool capped : {false, true})
    for (const bool all_hidden : {false, true})
      for (const double sink : {0.0, 2.0}) {
        Case c;
        c.algorithm = with_sink(all_hidden ? "j < 0" : "j >= 128", capped);
        c.extents = {{"B", 1}, {"Hq", 2}, {"Hkv", 2}, {"Sq", 1}, {"Sk", 256}, {"D", 64}, {"Dv", 64}};
        c.dtype = ScalarType::bf16;
        fill_zero_queries_and_ramp(c);
        c.inputs["V"] = constant(c.dtype, value_shape(c), 1);
        c.inputs["sink"] = constant(c.dtype, {2}, sink);
        const double keys = all_hidden ? 0 : 128, sum = keys + std::exp(sink);
        const auto check = [&](const HostTensors& out) {
          require_values(
              out.at("O"), [&](const Index&) { return keys / sum; }, units(c.dtype, 1));
          // L includes the sink.
          require_values(
              out.at("L"), [&](const Index&) { return std::log(sum); }, lse_tolerance);
        };
        for_each_schedule(c, check);
        for (const std::int64_t part : {256, 128, 64, 32}) {
          INFO("parts of " << part);
          check(run_case(c, in_parts_of(part)));
        }
        for (const auto& [name, schedule] : splits()) {
          INFO(name);
          check(run_case(c, schedule));
        }
      }
}

TEST_CASE("N07: parts without a key merge to what they are without, and all of them to the empty state") {
  // vllm-project/vllm#39148: two empty states gave inf - inf, NaN in value and logsumexp.
  ASTATIDE_NEED_CASE_DEVICE();
  for (const std::int64_t seen : {0, 7, 64}) {
    Case c;
    c.algorithm = attention_where("j >= Sk - " + std::to_string(seen));
    c.extents = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3}, {"Sk", 256}, {"D", 64}, {"Dv", 64}};
    c.dtype = ScalarType::f16;
    c.inputs["Q"] = constant(c.dtype, query_shape(c), 0);
    c.inputs["K"] = gaussian(c.dtype, key_shape(c), 5);
    c.inputs["V"] = constant(c.dtype, value_shape(c), 3);
    for (const auto& [name, schedule] : splits()) {
      INFO(name << ", " << seen << " keys seen");
      const HostTensors out = run_case(c, schedule);
      for_each(out.at("O"), [&](const Index&, double value) { REQUIRE(value == (seen == 0 ? 0.0 : 3.0)); });
      const double sum = seen == 0 ? -std::numeric_limits<double>::infinity() : std::log(static_cast<double>(seen));
      if (seen == 0)
        for_each(out.at("L"), [&](const Index&, double value) { REQUIRE(value == sum); });
      else
        require_values(
            out.at("L"), [&](const Index&) { return sum; }, lse_tolerance);
    }
  }
}

TEST_CASE("N22: the number of parts changes no head's result by more than its rounding") {
  // Dao-AILab/flash-attention#1647: some heads differed in the second decimal.
  ASTATIDE_NEED_CASE_DEVICE();
  Case c;
  c.algorithm = attention();
  c.extents = {{"B", 1}, {"Hq", 16}, {"Hkv", 8}, {"Sq", 1}, {"Sk", 4096}, {"D", 128}, {"Dv", 128}};
  c.dtype = ScalarType::bf16;
  fill_gaussian(c, 1);
  const auto results = [&] {
    std::map<std::string, HostTensors> all = results_by_schedule(c);
    // 4096 / 24 and 4096 / 40 leave a rest. Two tiles of 128 keys of f32 are what shared memory holds.
    for (const std::int64_t part : {128, 64, 40, 24})
      all["tiles of " + std::to_string(part)] = run_case(c, in_parts_of(part));
    for (const auto& [name, schedule] : splits()) all[name] = run_case(c, schedule);
    return all;
  };
  const std::map<std::string, HostTensors> gaussians = results();
  const HostTensors& first = gaussians.begin()->second;
  double largest = 0;
  for_each(first.at("O"), [&](const Index&, double value) { largest = std::max(largest, std::fabs(value)); });
  for (const auto& [name, out] : gaussians) {
    INFO(name << " against " << gaussians.begin()->first);
    const double unit = unit_in_last_place(c.dtype, largest);
    require_values(
        out.at("O"), [&](const Index& at) { return runtime::get(first.at("O"), at); },
        [&](double) { return 2 * unit; });
    require_values(
        out.at("L"), [&](const Index& at) { return runtime::get(first.at("L"), at); }, [](double) { return 1e-4; });
  }
  // Each head takes its own group's keys: V is the number of the group.
  c.inputs["Q"] = constant(c.dtype, query_shape(c), 0);
  c.inputs["V"] = filled(c.dtype, value_shape(c), [](const Index& at) { return static_cast<double>(at[1]); });
  for (const auto& [name, out] : results()) {
    INFO(name);
    require_values(
        out.at("O"), [](const Index& at) { return static_cast<double>(at[1] / 2); }, units(c.dtype, 0));
    require_values(
        out.at("L"), [](const Index&) { return std::log(4096.0); }, lse_tolerance);
  }
}
