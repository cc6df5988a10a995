// Ragged axes and packed outputs: every stage of every placement computes what the evaluator does, for random lengths.

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// Items of 0 to `most` rows one after the other, and NaN in the rows behind the last.
std::vector<double> random_offsets(std::int64_t items, std::int64_t most, std::mt19937& random) {
  std::vector<double> offsets{0};
  for (std::int64_t b = 0; b < items; ++b)
    offsets.push_back(offsets.back() + static_cast<double>(random() % 3 == 0 ? 0 : random() % (most + 1)));
  return offsets;
}

Arguments ragged_arguments(const Algorithm& algorithm, std::int64_t width, std::mt19937& random) {
  const std::int64_t items = 4, sq = 9, sk = 40;
  std::map<std::string, std::int64_t> extents = {{"B", items}, {"Hq", 2},    {"Hkv", 1},   {"Sq", sq},
                                                 {"Sk", sk},   {"D", width}, {"Dv", width}};
  const std::vector<double> q = random_offsets(items, sq, random), k = random_offsets(items, sk, random);
  extents["Tq"] = static_cast<std::int64_t>(q.back()) + 2;
  extents["Tk"] = static_cast<std::int64_t>(k.back()) + 3;
  Arguments arguments = random_inputs(algorithm, extents, random);
  arguments.inputs.at("q_offset").values = q;
  arguments.inputs.at("k_offset").values = k;
  for (const auto& [name, end] : {std::pair{"Q", q.back()}, std::pair{"K", k.back()}, std::pair{"V", k.back()}}) {
    DoubleTensor& tensor = arguments.inputs.at(name);
    const auto row = static_cast<std::size_t>(tensor.shape[1] * tensor.shape[2]);
    for (std::size_t n = static_cast<std::size_t>(end) * row; n < tensor.values.size(); ++n)
      tensor.values[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return arguments;
}

/// Every stage but those with roles, which the interpreter can't run.
void require_every_stage(const std::string& text, ScalarType type, std::int64_t width, std::mt19937& random) {
  const Algorithm algorithm = example_algorithm("ragged");
  const Schedule schedule = parse_schedule(text, "s.yaml");
  const Arguments arguments = ragged_arguments(algorithm, width, random);
  const auto expected = evaluate(algorithm, arguments);
  INFO(text);
  bool roles = false;
  Changes changes;
  compile(algorithm, schedule, {*find_target(schedule.target), arguments.extents, type},
          [&](std::string_view stage, const tile::Program& program) {
            roles = roles || (stage == "specialize_roles" && program.kernels[0].producers > 0);
            if (roles || !changes.in(program)) return;
            require_stage_values(stage, program, algorithm, arguments, expected);
          });
}

}  // namespace

TEST_CASE("ragged items come out as the evaluator says after every pass") {
  std::mt19937 random(17);
  for (const char* order :
       {"reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]", "reorder: [b, h, j.o, i.o], gpu_blocks: [h, b]"})
    for (const char* ring : {"", ", ring_buffer: 3"}) {
      const std::string inner = std::string_view(order).find("j.o, i.o") != std::string_view::npos ? "i.o" : "j.o";
      if (inner == "i.o" && *ring != 0) continue;
      require_every_stage("target: sm_80\nO: {tile: {i: 4, j: 12}, " + std::string(order) +
                              ", threads: [8, 4]}\nS: {compute_at: " + inner +
                              ", store_in: register}\nP: {compute_at: " + inner +
                              ", store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\n"
                              "K: {stage_at: j.o, store_in: shared" +
                              ring + "}\nV: {stage_at: j.o, store_in: shared" + ring + "}\n",
                          ScalarType::f32, 5, random);
    }
}

TEST_CASE("ragged items come out as the evaluator says where rows are a loop over blocks") {
  std::mt19937 random(18);
  require_every_stage(
      "target: sm_80\nO: {tile: {j: 12}, gpu_blocks: [h, i, b], threads: [8, 4]}\n"
      "S: {compute_at: j.o, store_in: register}\nP: {compute_at: j.o, store_in: shared}\n"
      "Q: {stage_at: j.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n"
      "V: {stage_at: j.o, store_in: shared}\n",
      ScalarType::f32, 5, random);
}

TEST_CASE("ragged items come out as the evaluator says under the schedules that are shipped") {
  std::mt19937 random(19);
  for (const char* name : {"cpu/standard", "cpu/fused_row", "cpu/flash1", "cpu/flash2", "cpu/decode", "simt/decode"})
    require_every_stage(shipped_schedule(name), ScalarType::f32, 5, random);
  // As many parts as fill the machine, whatever each item has.
  require_every_stage(with(shipped_schedule("simt/decode"), "rfactor: {j: [j.s, 32]}", "rfactor: {j: [j.s, auto]}"),
                      ScalarType::f32, 5, random);
  const std::string flash3 = with(
      with(shipped_schedule("sm90/flash3"), "warps: {producer: 1, consumer: 2}", "warps: {producer: 1, consumer: 1}"),
      "tile: {i: 128, j: 128}", "tile: {i: 64, j: 16}");
  require_every_stage(flash3, ScalarType::bf16, 16, random);
}

}  // namespace astatide::testing
