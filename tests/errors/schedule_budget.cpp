#include <catch2/catch.hpp>

#include "compiler/schedule/budget.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Tiles over the budget of the target: both numbers, the buffers, and what would fit.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

Request on(const std::string& schedule, const std::string& target, std::int64_t head) {
  Request request{schedule};
  request.target = *find_target(target);
  request.sizes = {{"D", head}, {"Dv", head}};
  return request;
}

TEST_CASE("L02: tiles over the budget are refused with both numbers, the buffers and the changes that would fit") {
  CHECK(on(testing::kFlash2, "sm_86", 128).message() ==
        R"(s.yaml:4:11: error: tiles of O need 114688 bytes of shared memory, sm_86 has 101376
    O: {tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [16, 16]}
              ^
note: Q 64x128 f32 = 32768; K 64x128 f32 = 32768; V 64x128 f32 = 32768; P 64x64 f32 = 16384
note: tile: {i: 32} would fit (90112, and the padding of rows)
note: tile: {j: 32} would fit (73728, and the padding of rows)
)");
}

TEST_CASE("schedules/README.md shows that error as it is") {
  const Schedule schedule = parse_schedule(testing::kFlash2, "mine.yaml");
  std::string message;
  try {
    check_legal(schedule, testing::example_algorithm("causal_gqa"), *find_target("sm_86"), {{"D", 128}, {"Dv", 128}},
                ScalarType::f32);
  } catch (const UserError& error) {
    message = error.what();
  }
  REQUIRE_FALSE(message.empty());
  CHECK(testing::text_of(testing::source_path("schedules/README.md")).find(message) != std::string::npos);
}

TEST_CASE("L02: head sizes 192 and 128 in bf16 on a device with 101376 bytes a block") {
  const std::string schedule = with(testing::kFlash2, "{i: 64, j: 64}", "{i: 128, j: 128}");
  Request request = on(schedule, "sm_86", 192);
  request.sizes["Dv"] = 128;
  request.type = ScalarType::bf16;
  CHECK_THAT(request.message(), Contains("tiles of O need 163840 bytes of shared memory, sm_86 has 101376"));
}

TEST_CASE("L02: exactly at the limit fits, 16 bytes below it does not, nor at 48 KiB without opt-in") {
  Request request{testing::kFlash2};
  Target target = *find_target("sm_86");
  target.shared_memory_per_block = 65536;  // what the tiles take for head size 64 in f32
  request.target = target;
  CHECK(request.message().empty());
  target.shared_memory_per_block = 65536 - 16;
  request.target = target;
  CHECK_THAT(request.message(), Contains("need 65536 bytes of shared memory, sm_86 has 65520"));
  target.shared_memory_per_block = 48 * 1024;
  request.target = target;
  CHECK_THAT(request.message(), Contains("need 65536 bytes of shared memory, sm_86 has 49152"));
}

TEST_CASE("fewer slots are proposed where a ring is too long, and the caret stands at the ring") {
  const std::string schedule = with(testing::kFlash2, "K: {stage_at: j.o, store_in: shared}",
                                    "K: {stage_at: j.o, store_in: shared, ring_buffer: 6}");
  CHECK(on(schedule, "sm_80", 128).message() ==
        R"(s.yaml:8:51: error: tiles of O need 278528 bytes of shared memory, sm_80 has 166912
    K: {stage_at: j.o, store_in: shared, ring_buffer: 6}
                                                      ^
note: Q 64x128 f32 = 32768; K 6 slots of 64x128 f32 = 196608; V 64x128 f32 = 32768; P 64x64 f32 = 16384
note: ring_buffer: 2 would fit (147456, and the padding of rows)
note: tile: {j: 32} would fit (155648, and the padding of rows)
)");
}

TEST_CASE("a row that does not fit is refused with the largest that would") {
  const std::string schedule = with(testing::kFusedRow, "Sk: 1024", "Sk: 8192");
  const std::string message = on(schedule, "sm_80", 64).message();
  CHECK_THAT(message,
             Contains("s.yaml:4:8: error: tiles of O need 565248 bytes of shared memory, sm_80 has 166912") &&
                 Contains("note: bound: {Sk: 1920}, the largest, would fit (163840, and the padding of rows)"));
  CHECK(on(with(schedule, "Sk: 8192", "Sk: 1920"), "sm_80", 64).message().empty());
}

TEST_CASE("a length beyond the bound is refused with the largest that would fit") {
  Request request = on(testing::kFusedRow, "sm_80", 64);
  request.sizes["Sk"] = 1025;
  CHECK(request.message() == R"(s.yaml:4:8: error: Sk is 1025, the schedule is bound to 1024
    bound: {Sk: 1024}
           ^
note: the largest Sk whose row fits sm_80 beside these tiles is 1920
)");
  request.sizes["Sk"] = 1024;
  CHECK(request.message().empty());
}

TEST_CASE("a bound near the largest integer is refused like any other") {
  const std::string schedule = with(testing::kFusedRow, "Sk: 1024", "Sk: 1099511627776");
  CHECK_THAT(on(schedule, "sm_80", 64).message(), Contains("the largest, would fit"));
}

TEST_CASE("registers: accumulators that the threads can't hold are refused") {
  const std::string schedule = with(testing::kFlash2, "threads: [16, 16]", "threads: [4, 8]");
  CHECK(on(schedule, "sm_80", 64).message() ==
        R"(s.yaml:4:88: error: tiles of O need 256 registers a thread, sm_80 has 255 for each of 32 threads
    O: {tile: {i: 64, j: 64}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [4, 8]}
                                                                                           ^
note: O 64x64 = 128; S 64x64 = 128
note: smaller tiles or other threads would fit
)");
}

TEST_CASE("an axis that is whole in a tile has a length that a tile can have") {
  CHECK_THAT(on(testing::kFlash2, "sm_80", 0).message(),
             Contains("the axis d is whole in a tile, and its extent D is 0, allowed are 1 to 1024"));
  CHECK_THAT(on(testing::kFlash2, "sm_80", INT64_MAX).message(),
             Contains("its extent D is 9223372036854775807, allowed are 1 to 1024"));
}

TEST_CASE("the workspace of a core has a budget, too") {
  const std::string schedule = with(testing::kCpuFlash2, "{i: 64, j: 256}", "{i: 256, j: 1024}");
  CHECK_THAT(Request{schedule}.message(), Contains("bytes of workspace of a core, cpu has 1048576"));
}

TEST_CASE("what check_budget proposes fits") {
  for (const std::int64_t head : {64, 128, 256}) {
    const std::string schedule = testing::kFlash2;
    for (const Diagnostic& problem : on(schedule, "sm_86", head).problems()) {
      for (const std::string& note : problem.notes) {
        if (!note.starts_with("tile: {j: ")) continue;
        const std::string size = note.substr(10, note.find('}') - 10);
        CHECK(on(with(schedule, "j: 64}", "j: " + size + "}"), "sm_86", head).message().empty());
      }
    }
  }
}

}  // namespace
}  // namespace astatide
