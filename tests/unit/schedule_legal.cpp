#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

namespace astatide {
namespace {

using testing::Request;
using testing::shipped_schedule;
using testing::shipped_schedule_names;
using testing::with;

TEST_CASE("every shipped schedule is legal for head sizes 64 and 128 in f32 on its own target") {
  for (const std::string& name : shipped_schedule_names()) {
    for (const std::string algorithm : {"attention", "causal_gqa"}) {
      for (const std::int64_t head : {1, 40, 64, 72, 128}) {
        INFO(name << " " << algorithm << " " << head);
        CHECK(Request{shipped_schedule(name), algorithm, {{"D", head}, {"Dv", head}}}.message().empty());
      }
    }
  }
}

TEST_CASE("every simt schedule is legal on the CPU, which runs the same tile program") {
  for (const std::string& name : shipped_schedule_names()) {
    if (name.starts_with("cpu/")) continue;
    INFO(name);
    Request request{shipped_schedule(name)};
    request.target = *find_target("cpu");
    CHECK(request.message().empty());
  }
}

TEST_CASE("the same file serves every algorithm that has its names") {
  for (const std::string algorithm : {"additive_bias", "document_mask", "linear_attention", "prefix_lm",
                                      "sigmoid_attention", "sink", "sliding_window", "softcap_alibi"}) {
    for (const std::string& name : shipped_schedule_names()) {
      INFO(algorithm << " " << name);
      Request request{shipped_schedule(name), algorithm};
      request.sizes = testing::example_algorithm(algorithm).sizes;
      CHECK(request.message().empty());
    }
  }
}

TEST_CASE("a schedule without words on storage is legal: registers for scores, shared memory for what is staged") {
  CHECK(Request{R"(
O: {tile: {i: 64, j: 64}, gpu_blocks: [i.o, h, b], threads: [16, 16]}
Q: {stage_at: i.o}
K: {stage_at: j.o}
V: {stage_at: j.o}
)"}
            .message()
            .empty());
}

TEST_CASE("what is tiled may stay serial: heads inside a block") {
  CHECK(Request{with(testing::kFlash1, "gpu_blocks: [h, b]", "gpu_blocks: [b]")}.message().empty());
}

TEST_CASE("compute_at of P may be the loop around the row when nothing is rewritten") {
  const std::string row = with(testing::kFusedRow, "P: {compute_at: j.o", "P: {compute_at: i.o");
  Request request{with(row, "Sk: 1024", "Sk: 512")};
  CHECK(request.message().empty());
}

TEST_CASE("a schedule for the CPU may leave operands where they are") {
  CHECK(Request{R"(
target: cpu
O: {tile: {i: 64, j: 256}, parallel: [i.o, h, b]}
)"}
            .message()
            .empty());
}

TEST_CASE("the same value from the C++ API is checked without places") {
  const Schedule schedule =
      ScheduleBuilder("sm_80")
          .place(PlacementBuilder("O").tile({{"i", 64}, {"j", 0}}).gpu_blocks({"i.o", "h", "b"}).threads(16, 16))
          .build();
  CHECK_THROWS_WITH(check_legal(schedule, testing::example_algorithm("attention"), *find_target("sm_80"), {}),
                    "error: tile of O: j is 0, allowed are 1 to 1024");
}

}  // namespace
}  // namespace astatide
