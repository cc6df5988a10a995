// What no element sees may hold anything: NaN there changes no bit of any stage.

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "compiler/pipeline.h"
#include "compiler/tile/interpret.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

/// Keys that an item has not are at and beyond `end` of it.
Arguments with_unused(Arguments arguments, double unused, const std::vector<std::int64_t>& ends) {
  for (const char* name : {"K", "V"}) {
    DoubleTensor& tensor = arguments.inputs.at(name);
    const std::int64_t heads = tensor.shape[1], keys = tensor.shape[2], width = tensor.shape[3];
    for (std::size_t n = 0; n < tensor.values.size(); ++n) {
      const auto at = static_cast<std::int64_t>(n);
      if (at / width % keys >= ends[static_cast<std::size_t>(at / width / keys / heads)]) tensor.values[n] = unused;
    }
  }
  return arguments;
}

/// Stages up to those with roles, which the interpreter can't run.
void require_unused(const Algorithm& algorithm, const Schedule& schedule, ScalarType type, const Arguments& arguments,
                    const std::vector<std::int64_t>& ends) {
  const Arguments clean = with_unused(arguments, 0, ends);
  const Arguments spoilt = with_unused(arguments, std::numeric_limits<double>::quiet_NaN(), ends);
  const auto expected = evaluate(algorithm, clean);
  CompileOptions options{*find_target(schedule.target), arguments.extents, type};
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage != "split_masked_loops" && stage != "overlap" && stage != "stage_tiles") return;
    INFO("after " << stage << ":\n" << tile::print(program));
    const auto found = tile::interpret(program, algorithm, spoilt);
    REQUIRE(distance(found, expected) < kTolerance);
    REQUIRE(distance(found, tile::interpret(program, algorithm, clean)) == 0);
  });
}

const std::vector<std::int64_t> kLengths = {0, 7, 12, 13, 29};

Arguments padded_arguments(const Algorithm& algorithm, std::int64_t rows, std::int64_t width) {
  auto extents = small_extents(algorithm, rows, 29);
  extents["B"] = static_cast<std::int64_t>(kLengths.size());
  extents["D"] = extents["Dv"] = width;
  std::mt19937 random(11);
  Arguments arguments = random_inputs(algorithm, extents, random);
  for (std::size_t b = 0; b < kLengths.size(); ++b)
    arguments.inputs.at("length").values[b] = static_cast<double>(kLengths[b]);
  return arguments;
}

}  // namespace

TEST_CASE("unused keys of padded items reach no stage, whatever the loops and the copies are") {
  const Algorithm algorithm = example_algorithm("padded");
  for (const char* order :
       {"reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b]", "reorder: [b, h, j.o, i.o], gpu_blocks: [h, b]"})
    for (const char* extra : {"", ", overlap: {cover: 1/2}"})
      for (const int slots : {1, 3}) {
        const bool outside = std::string_view(order).find("j.o, i.o") != std::string_view::npos;
        if (outside && (*extra != 0 || slots > 1)) continue;
        const std::string inner = outside ? "i.o" : "j.o", ring = slots > 1 ? ", ring_buffer: 3" : "";
        const std::string text = "target: sm_80\nO: {tile: {i: 4, j: 12}, " + std::string(order) +
                                 ", threads: [8, 4]}\nS: {compute_at: " + inner + ", store_in: register" + extra +
                                 "}\nP: {compute_at: " + inner +
                                 ", store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\n"
                                 "K: {stage_at: j.o, store_in: shared" +
                                 ring + "}\nV: {stage_at: j.o, store_in: shared" + ring + "}\n";
        INFO(text);
        require_unused(algorithm, parse_schedule(text, "s.yaml"), ScalarType::f32, padded_arguments(algorithm, 6, 5),
                       kLengths);
      }
}

TEST_CASE("unused keys of padded items are cleared where TMA has copied them") {
  const Algorithm algorithm = example_algorithm("padded");
  const std::string text = with(
      with(shipped_schedule("sm90/flash3"), "warps: {producer: 1, consumer: 2}", "warps: {producer: 1, consumer: 1}"),
      "tile: {i: 128, j: 128}", "tile: {i: 64, j: 16}");
  for (const std::string& schedule : {text, with(text, ", overlap: {cover: 1}", "")})
    require_unused(algorithm, parse_schedule(schedule, "s.yaml"), ScalarType::bf16, padded_arguments(algorithm, 3, 16),
                   kLengths);
}

TEST_CASE("unused keys of one or of several passes reach no stage") {
  const Algorithm algorithm = example_algorithm("padded");
  for (const char* name : {"cpu/standard", "cpu/fused_row", "cpu/flash1"})
    require_unused(algorithm, parse_schedule(shipped_schedule(name), name), ScalarType::f32,
                   padded_arguments(algorithm, 6, 5), kLengths);
}

}  // namespace astatide::testing
