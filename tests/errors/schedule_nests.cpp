#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"

// Tiles, loops, blocks and threads that make no kernel, and directives under the wrong name.

namespace astatide {
namespace {

using Catch::Matchers::Contains;
using testing::Request;
using testing::with;

const std::string kTile = "{i: 64, j: 64}";
const std::string kReorder = "reorder: [b, h, i.o, j.o]";
const std::string kBlocks = "gpu_blocks: [i.o, h, b]";
const std::string kThreads = ", threads: [16, 16]";

std::string changed(const std::string& from, const std::string& to) {
  return Request{with(testing::kFlash2, from, to)}.message();
}

TEST_CASE("a tile over an axis that no loop runs over is refused") {
  CHECK_THAT(changed(kTile, "{i: 64, j: 64, d: 8}"), Contains("tile of O: d is whole in a tile"));
  CHECK_THAT(changed(kTile, "{i: 64, j: 64, x: 8}"), Contains("tile of O: there is no axis x"));
  CHECK_THAT(changed(kTile, "{i: 64, j: 64, h: 2}"),
             Contains("tile of O: both factors of a product vary with h") && Contains("note: legal are i and j"));
}

TEST_CASE("a tile of an output's columns has a loop over its parts, and one state for all of them") {
  const std::string parts = changed(kTile + ", " + kReorder + ", " + kBlocks,
                                    "{i: 64, j: 64, e: 16}, reorder: [b, h, e.o, i.o, j.o], "
                                    "gpu_blocks: [e.o, i.o, h, b]");
  CHECK(parts.empty());
  CHECK_THAT(changed(kTile, "{i: 64, j: 64, e: 16}"),
             Contains("reorder of O lacks e.o") && Contains("note: loops of O are b, h, i.o, e.o, j.o"));
  CHECK_THAT(changed(kTile + ", " + kReorder + ", " + kBlocks,
                     "{i: 64, j: 64, e: 16}, rfactor: {j: [j.s, 4]}, reorder: [b, h, e.o, i.o, j.s, j.o], "
                     "gpu_blocks: [e.o, j.s, i.o, h, b]"),
             Contains("rfactor of O: tiles hold parts of e, and the blocks of all of them would store the states") &&
                 Contains("note: leave e out of tile"));
  CHECK_THAT(changed(kTile, "{i: 64, j: 64, e: 2048}"), Contains("2048") && Contains("1 to 1024"));
  // Without a state that is carried over tiles there are passes, each over whole columns.
  const std::string none = with(testing::kFlash2, "rewrite: online", "rewrite: none");
  CHECK_THAT(Request{with(none, kTile, "{i: 64, j: 64, e: 16}")}.message(),
             Contains("tile of O: e is whole in a tile, no loop runs over it") &&
                 Contains("note: loops of O run over b, h, i, j"));
}

TEST_CASE("the reduced axis has to be tiled") {
  const std::string message = changed(kTile, "{i: 64}");
  CHECK_THAT(message, Contains("tile of O does not name j, the axis that is reduced"));
}

TEST_CASE("a tile of too many elements is refused") {
  CHECK_THAT(changed(kTile, "{i: 1024, j: 1024}"), Contains("tile of O has more than 262144 elements"));
}

TEST_CASE("reorder names each loop of the tile, and no other") {
  CHECK_THAT(changed(kReorder, "reorder: [b, i.o, j.o]"),
             Contains("reorder of O lacks h") && Contains("note: loops of O are b, h, i.o, j.o"));
  CHECK_THAT(changed(kReorder, "reorder: [b, h, i, j.o]"), Contains("reorder of O: i is tiled, its loop is i.o"));
  CHECK_THAT(changed(kReorder, "reorder: [b.o, h, i.o, j.o]"), Contains("reorder of O: b is not tiled, its loop is b"));
  CHECK_THAT(changed(kReorder, "reorder: [b, h, i.o, j.o, i.i]"), Contains("i.i is the loop inside a tile"));
  CHECK_THAT(changed(kReorder, "reorder: [b, h, i.o, j.o, d]"), Contains("d is whole in a tile"));
  CHECK_THAT(changed(kReorder, "reorder: [b, hh, i.o, j.o]"),
             Contains("there is no loop hh") && Contains("did you mean h?"));
}

TEST_CASE("only a loop inside a block runs downwards") {
  const std::string order = kReorder + ", descending: [j.o]";
  CHECK(changed(kReorder, order).empty());
  CHECK_THAT(changed(kReorder, kReorder + ", descending: [i.o]"),
             Contains("descending of O: i.o is spread over blocks, which run in any order") &&
                 Contains("note: loops inside a block are j.o"));
  CHECK_THAT(changed(kReorder, kReorder + ", descending: [j]"), Contains("j is tiled, its loop is j.o"));
}

TEST_CASE("loops over blocks are outermost, and none of them is reduced") {
  CHECK_THAT(changed(kReorder, "reorder: [b, j.o, h, i.o]"),
             Contains("reorder of O: j.o lies outside loops that are spread over blocks") &&
                 Contains("note: reorder: [b, h, i.o, j.o]"));
  CHECK_THAT(changed(kBlocks, "gpu_blocks: [j.o, i.o, h, b]"),
             Contains("j.o runs over the axis that O reduces, and blocks can't share a reduction"));
  CHECK_THAT(changed(", " + kBlocks, ""),
             Contains("O has a kernel of its own and no gpu_blocks") && Contains("note: gpu_blocks: [i.o, h, b]"));
  CHECK_THAT(changed(kBlocks, "gpu_blocks: [i.o, x, b]"), Contains("gpu_blocks of O: there is no loop x"));
}

TEST_CASE("threads fill warps, and those of a row lie in one") {
  CHECK_THAT(changed(kThreads, ""), Contains("O has a kernel of its own and no threads"));
  CHECK_THAT(changed(kThreads, ", threads: [5, 4]"),
             Contains("threads of O: 5 x 4 = 20, which is no multiple of a warp"));
  CHECK_THAT(changed(kThreads, ", threads: [4, 64]"), Contains("threads of O: 64 columns, allowed are 1, 2, 4, 8, 16"));
  CHECK_THAT(changed(kThreads, ", threads: [32, 3]"), Contains("threads of O: 3 columns"));
  CHECK_THAT(changed(kThreads, ", threads: [64, 32]"),
             Contains("threads of O: 2048 threads, a block of sm_80 has at most 1024"));
}

TEST_CASE("L01: a grid over the limit is refused with the product and the limit") {
  Request request{testing::kFlash2};
  request.sizes = {{"D", 64}, {"Dv", 64}, {"B", 70000}, {"Hq", 70000}, {"Sq", 10}};
  CHECK_THAT(request.message(),
             Contains("gpu_blocks of O: 1 * 70000 * 70000 blocks, the grid of sm_80 has at most 2147483647"));
  request.sizes = {{"D", 64}, {"Dv", 64}, {"B", 70000}, {"Hq", 3}, {"Sq", 10}};
  CHECK(request.message().empty());
  const std::int64_t huge = INT64_MAX;
  request.sizes = {{"D", 64}, {"Dv", 64}, {"B", huge}, {"Hq", huge}, {"Sq", huge}};
  CHECK_THAT(request.message(), Contains("blocks, the grid of sm_80 has at most 2147483647"));
}

TEST_CASE("S07: a name that the algorithm has not is refused with the nearest and all known ones") {
  CHECK(changed("Q: {stage_at: i.o", "Scores: {compute_at: j.o, store_in: shared}\nQ: {stage_at: i.o") ==
        R"(s.yaml:7:1: error: 'Scores' is neither a definition nor an input of the algorithm
    Scores: {compute_at: j.o, store_in: shared}
    ^
note: definitions and inputs of causal_gqa are S, A, P, O, L, Q, K, V
)");
}

TEST_CASE("S07: a directive under a name that it does not belong to is refused") {
  CHECK_THAT(changed("P: {compute_at: j.o", "P: {ring_buffer: 2, compute_at: j.o"),
             Contains("ring_buffer belongs to a staged input, and P is a definition inside the loops of another"));
  CHECK_THAT(changed("K: {stage_at: j.o", "K: {compute_at: j.o, stage_at: j.o"),
             Contains("compute_at belongs to an inner definition, and K is an input"));
  CHECK_THAT(changed("S: {compute_at: j.o", "S: {threads: [16, 16], compute_at: j.o"),
             Contains("threads belongs to a root definition, and S is a definition inside the loops of another"));
  CHECK_THAT(changed(kThreads, ", threads: [16, 16], stage_at: i.o"),
             Contains("stage_at belongs to a staged input, and O is a root definition"));
}

TEST_CASE("S06: a directive that would have no effect is refused") {
  const auto added = [](const std::string& line) { return Request{testing::kFlash2 + line + "\n"}.message(); };
  CHECK_THAT(added("A: {compute_at: j.o}"), Contains("A holds no product and is a factor of none"));
  CHECK_THAT(added("L: {compute_at: i.o}"), Contains("L is computed in the kernel of O, with its rows"));
  CHECK_THAT(added("L: {tile: {i: 64}}"), Contains("L is computed in the kernel of O, with its rows"));
  CHECK_THAT(added("bound: {D: 128}"), Contains("bound: D is fixed when the kernel is compiled"));
  CHECK_THAT(added("bound: {Sx: 128}"), Contains("bound: there is no extent Sx") && Contains("did you mean"));
  CHECK_THAT(
      changed("Q: {stage_at: i.o", "Q: {ring_buffer: 2, stage_at: i.o"),
      Contains("ring_buffer of Q: i.o is spread over blocks, so each block copies one tile and 2 slots would have "
               "no effect"));
  CHECK_THAT(changed("S: {compute_at: j.o, store_in: register",
                     "S: {align_storage: {j: 68}, compute_at: j.o, store_in: register"),
             Contains("align_storage of S: S does not live in shared memory, it would have no effect"));
  CHECK_THAT(changed("K: {stage_at: j.o", "K: {align_storage: {j: 32}, stage_at: j.o"),
             Contains("align_storage of K: tiles of j are 64, a multiple of 32 already"));
  CHECK_THAT(changed("K: {stage_at: j.o", "K: {align_storage: {h: 32}, stage_at: j.o"),
             Contains("align_storage of K: a tile holds one step of h"));
  CHECK_THAT(changed("K: {stage_at: j.o", "K: {align_storage: {e: 32}, stage_at: j.o"),
             Contains("align_storage of K: e is no axis of K"));
  CHECK_THAT(changed("P: {compute_at: j.o", "P: {unroll: {j: 2}, compute_at: j.o"),
             Contains("unroll of P: P holds no product"));
  CHECK_THAT(changed("S: {compute_at: j.o", "S: {unroll: {j: 2}, compute_at: j.o"),
             Contains("unroll of S: j is not summed by the product") && Contains("sums over d"));
  CHECK_THAT(changed("K: {stage_at: j.o, store_in: shared}", "K: {store_in: shared}"),
             Contains("K has no stage_at: its other directives would have no effect"));
  CHECK_THAT(changed("P: {compute_at: j.o, ", "P: {"), Contains("P has neither compute_at nor compute_root"));
  Request biased{testing::kFlash2 + "bias: {stage_at: j.o}\n", "additive_bias"};
  const Algorithm algorithm = testing::example_algorithm("additive_bias");
  const std::string bias = algorithm.inputs.back().name;
  biased.schedule = testing::kFlash2 + bias + ": {stage_at: j.o}\n";
  CHECK_THAT(biased.message(), Contains(bias + " is read element by element"));
}

TEST_CASE("S06: directives of the other machine are refused") {
  CHECK_THAT(changed(kBlocks, "parallel: [i.o, h, b]"), Contains("parallel is for the CPU, the target is sm_80"));
  CHECK_THAT(changed(kThreads, ", threads: [16, 16], vectorize: 8"),
             Contains("lanes of a root definition have no effect"));
  const auto cpu = [](const std::string& from, const std::string& to) {
    return Request{with(testing::kCpuFlash2, from, to)}.message();
  };
  CHECK_THAT(cpu("parallel: [i.o, h, b]", "gpu_blocks: [i.o, h, b]"), Contains("gpu_blocks is for GPUs"));
  CHECK_THAT(cpu("parallel: [i.o, h, b]", "parallel: [i.o, h, b], threads: [16, 16]"),
             Contains("threads of O would have no effect on cpu"));
  CHECK_THAT(cpu("K: {stage_at: j.o", "K: {ring_buffer: 2, stage_at: j.o"),
             Contains("ring_buffer of K would have no effect on cpu"));
  CHECK_THAT(cpu("K: {stage_at: j.o", "K: {vectorize: 4, stage_at: j.o"),
             Contains("vectorize of K would have no effect on cpu"));
}

TEST_CASE("storage that the kind of tile can't have is refused") {
  CHECK_THAT(changed("S: {compute_at: j.o, store_in: register", "S: {compute_at: j.o, store_in: global"),
             Contains("store_in of S: a tile lives in shared memory or in registers"));
  CHECK_THAT(
      changed("P: {compute_at: j.o, store_in: shared", "P: {compute_at: j.o, store_in: register"),
      Contains("store_in of P: P is an operand of a product, and multiply-adds read their operands from shared"));
  CHECK_THAT(changed("K: {stage_at: j.o, store_in: shared", "K: {stage_at: j.o, store_in: register"),
             Contains("store_in of K: a product reads it"));
  CHECK_THAT(changed("K: {stage_at: j.o, store_in: shared", "K: {stage_at: j.o, store_in: global"),
             Contains("store_in of K: a copy in global memory would have no effect"));
  CHECK_THAT(changed(kThreads, ", threads: [16, 16], store_in: shared"),
             Contains("store_in of O: O is computed at root and lives in global memory"));
}

TEST_CASE("a load wider than 16 bytes is refused, by the type of the request") {
  Request request{with(testing::kFlash2, "K: {stage_at: j.o", "K: {vectorize: 8, stage_at: j.o")};
  CHECK_THAT(request.message(), Contains("vectorize of K: 8 elements of f32 are 32 bytes, one load moves at most 16") &&
                                    Contains("note: vectorize: 4"));
  request.type = ScalarType::bf16;
  CHECK(request.message().empty());
}

TEST_CASE("compute_at and compute_root contradict each other") {
  CHECK_THAT(
      Request{with(testing::kStandard, "P: {compute_root: true", "P: {compute_at: i.o, compute_root: true")}.message(),
      Contains("P has compute_at and compute_root, one of them is wanted"));
}

TEST_CASE("a schedule without any output is refused") {
  CHECK_THAT(Request{"K: {stage_at: j.o, store_in: shared}\n"}.message(),
             Contains("no output has a place: O or L needs tile, gpu_blocks and threads"));
}

TEST_CASE("a target that lacks what the schedule needs is refused") {
  Request request{with(testing::kFlash2, "target: sm_80", "target: sm_90a")};
  request.target = *find_target("sm_80");
  CHECK_THAT(request.message(), Contains("s.yaml:2:9: error: the schedule needs sm_90a, the target is sm_80"));
  Request cpu{testing::kCpuFlash2};
  cpu.target = *find_target("sm_80");
  CHECK_THAT(cpu.message(), Contains("the schedule is written for the CPU and can't be compiled for sm_80"));
}

TEST_CASE("all problems of a schedule are reported at once, in the order of the file") {
  std::string schedule = testing::kFlash2;
  schedule = with(schedule, kThreads, ", threads: [3, 16]");
  schedule = with(schedule, "S: {compute_at: j.o", "S: {compute_at: h");
  schedule = with(schedule, "K: {stage_at: j.o", "K: {stage_at: i.o");
  const std::vector<Diagnostic> problems = Request{schedule + "X: {stage_at: i.o}\n"}.problems();
  REQUIRE(problems.size() == 4);
  for (std::size_t n = 1; n < problems.size(); ++n) CHECK(problems[n - 1].where.line < problems[n].where.line);
}

}  // namespace
}  // namespace astatide
