// Scores that are a sum of two products of tiles: latent attention with rotary columns apart.
#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "compiler/pipeline.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

/// A shipped schedule with lines for the rotary columns like those of the others.
Schedule with_rotary(const std::string& name) {
  Schedule schedule = load_schedule(name);
  for (const auto& [like, added] : {std::pair{"Q", "Qr"}, {"K", "Kr"}}) {
    Placement placement = *schedule.find(like);
    placement.name = added;
    schedule.placements.push_back(placement);
  }
  return schedule;
}

Case rotary(std::int64_t rows, std::int64_t columns, ScalarType dtype) {
  Case c;
  c.algorithm = load_algorithm("mla_prefill");
  c.dtype = dtype;
  c.extents = {{"B", 2}, {"H", 2}, {"Sq", rows}, {"Sk", columns}, {"D", 64}, {"R", 32}, {"Dv", 64}};
  c.inputs["Q"] = gaussian(dtype, {2, 2, rows, 64}, 1);
  c.inputs["Qr"] = gaussian(dtype, {2, 2, rows, 32}, 2);
  c.inputs["K"] = gaussian(dtype, {2, 2, columns, 64}, 3);
  c.inputs["Kr"] = gaussian(dtype, {2, columns, 32}, 4);
  c.inputs["V"] = gaussian(dtype, {2, 2, columns, 64}, 5);
  return c;
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

}  // namespace

TEST_CASE("two products that only their sum reads add up in one tile, and a mask bounds its loop") {
  const Schedule schedule = with_rotary("simt/flash2");
  const CompileOptions options{*find_target("sm_80"), load_algorithm("mla_prefill").sizes, ScalarType::f32};
  std::string lowered;
  compile(load_algorithm("mla_prefill"), schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage == "split_masked_loops") lowered = tile::print(program);
  });
  INFO(lowered);
  CHECK(count(lowered, "mma S = (Q[") == 2);  // of full tiles and of partial ones
  CHECK(count(lowered, "mma S += (Qr[") == 2);
  CHECK(count(lowered, "let j_o_end = ") == 1);
}

TEST_CASE("a sum of products gives what the evaluator gives, under families of all machines") {
  for (const auto& [name, dtype] : {std::pair{"simt/flash2", ScalarType::f32},
                                    {"sm80/flash2", ScalarType::bf16},
                                    {"sm90/flash3_plain", ScalarType::f16}}) {
    for (const auto& [rows, columns] : {std::pair{130, 200}, {1, 70}, {9, 1}}) {
      INFO(name << ", " << rows << " by " << columns);
      const Case c = rotary(rows, columns, dtype);
      for (const OutputCheck& check :
           check_outputs(c.algorithm, c.extents, {}, c.inputs, run_case(c, with_rotary(name), Device::cpu()))) {
        INFO(check.name << ": " << check.max_abs_error << " of " << check.limit);
        CHECK(check.ok());
      }
    }
  }
}

TEST_CASE("products that something else reads, or that are placed apart, keep tiles of their own") {
  const CompileOptions options{*find_target("sm_80"), load_algorithm("mla_prefill").sizes, ScalarType::f32};
  const auto lowered = [&](const std::string& score) {
    const Algorithm algorithm = parse_algorithm(
        with(print_algorithm(load_algorithm("mla_prefill")), "(S[b,h,i,j] + T[b,h,i,j]) * scale", score), "a.yaml");
    std::string out;
    compile(algorithm, with_rotary("simt/flash2"), options, [&](std::string_view stage, const tile::Program& program) {
      if (stage == "lower") out = tile::print(program);
    });
    return out;
  };
  CHECK(count(lowered("(S[b,h,i,j] + T[b,h,i,j]) * scale"), "mma S += ") == 1);
  CHECK(count(lowered("(S[b,h,i,j] + T[b,h,i,j]) * T[b,h,i,j] * scale"), " += (Qr[") == 0);
  CHECK(count(lowered("S[b,h,i,j] * T[b,h,i,j] * scale"), " += (Qr[") == 0);
}
