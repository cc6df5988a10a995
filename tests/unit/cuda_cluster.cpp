// The emitted text of kernels whose blocks form clusters: who copies which share, and whom it tells.

#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "compiler/tile/parameters.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

/// The shipped schedule of clusters, with changes.
std::string clustered_kernel(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string schedule = shipped_schedule("sm90/flash3_cluster");
  for (const auto& [from, to] : changes) schedule = with(schedule, from, to);
  const CompileOptions options{*find_target("sm_90a"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16};
  return cuda::emit(compile(example_algorithm("causal_gqa"), parse_schedule(schedule, "s.yaml"), options)).text;
}

const std::pair<std::string, std::string> kGrid{", persistent: longest_first", ""};

int times_in(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::size_t first_of(const std::string& text, const std::string& part, std::size_t from = 0) {
  INFO(part);
  const std::size_t found = text.find(part, from);
  REQUIRE(found != std::string::npos);
  return found;
}

}  // namespace

TEST_CASE("each block of a cluster copies its share of the rows to all, and waits for the bytes of the whole tile") {
  const std::string text = clustered_kernel({kGrid});
  CHECK(times_in(text, "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) causal_gqa_kernel(") == 1);
  CHECK(times_in(text, "const int cluster_rank = blockIdx.x % 2;") == 1);
  CHECK(times_in(text,
                 "tma_multicast(0x3, (K_s + K_s_write * 16384) + cluster_rank * 4096 + 8192, &K_map, barriers + 0 + "
                 "K_s_write, 64, j_o * 128 + cluster_rank * 64, ") == 3);
  CHECK(times_in(text, "barrier_expect(barriers + 0 + K_s_write, 32768);") == 3);
  // Rows of Q are a block's own.
  CHECK(times_in(text, "tma_load(Q_s + ") == 2);
  CHECK(times_in(text, "tma_load(") == 2);
  const std::string four = clustered_kernel({kGrid, {"cluster: 2", "cluster: 4"}});
  CHECK(times_in(four,
                 "tma_multicast(0xf, (K_s + K_s_write * 16384) + cluster_rank * 2048 + 0, &K_map, barriers + 0 + "
                 "K_s_write, 0, j_o * 128 + cluster_rank * 32, ") == 3);
}

TEST_CASE("a slot that all blocks copy into is free when the consumers of all have told so") {
  const std::string text = clustered_kernel({kGrid});
  CHECK(times_in(text, "barrier_init(barriers + 3 + slot, 16);  // is free") == 1);
  CHECK(times_in(text, "barrier_init(barriers + 13 + slot, 8);  // is free") == 1);
  CHECK(times_in(text, "if (thread % 32 < 2) barrier_arrive_at(thread % 32, barriers + 3 + K_s_read);") ==
        times_in(text, "barrier_wait(barriers + 0 + K_s_read, "));
  CHECK(times_in(text, "if (thread % 32 == 0) barrier_arrive(barriers + 13 + Q_s_read);") == 1);
}

TEST_CASE("a cluster meets when its barriers are made, and before a block of it ends") {
  for (const std::string& text : {clustered_kernel({kGrid}), clustered_kernel({})}) {
    CHECK(times_in(text, "cluster_sync();") == 2);
    CHECK(times_in(text, "__syncthreads();") == 0);
    CHECK(first_of(text, "barrier_init_fence();") < first_of(text, "cluster_sync();"));
    CHECK(text.ends_with("  }\n  cluster_sync();\n}\n"));
  }
}

TEST_CASE("where an axis ends within a cluster, its last tile is computed twice and stored once") {
  const std::string text = clustered_kernel({kGrid});
  CHECK(times_in(text,
                 "const int cluster_step = (((Sq + 127) / 128 + 1) / 2) - 1 - block % (((Sq + 127) / 128 + 1) / 2);") ==
        1);
  CHECK(times_in(text, "const int i_o = min(tile_place, (Sq + 127) / 128 - 1);") == 1);
  CHECK(times_in(text, "if (has_tile) {") == 2);
}

TEST_CASE("one thread deals tiles out to all blocks of a cluster that stay") {
  const std::string text = clustered_kernel({});
  const std::size_t dealer = first_of(text, "else if (thread == 288 && cluster_rank == 0) {");
  CHECK(first_of(text, "for (int tile = blockIdx.x / 2;;) {") > dealer);
  CHECK(
      first_of(text, "store_at(rank, &(next_tiles + tile_slot * 3)[0], tile < tiles ? cluster_step * 2 + rank : -1);") <
      first_of(text, "barrier_release_at(rank, barriers + 14 + tile_slot);"));
  CHECK(times_in(text, "tile = draw_tile(tile_counter, 2);") == 1);
  CHECK(times_in(text, "leave_tiles(tile_counter, 2);") == 1);
  // Producers of two blocks and their 16 warps of consumers take each place.
  CHECK(times_in(text, "barrier_init(barriers + 16 + slot, 18);  // is free") == 1);
  CHECK(times_in(text, "barrier_acquire(barriers + 14 + tile_slot, tile_phase);") == 4);
  CHECK(times_in(text, "barrier_release_at(0, barriers + 16 + tile_slot);") == 2);
}

TEST_CASE("a map of what is copied in shares has boxes of a share") {
  const CompileOptions options{*find_target("sm_90a"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16};
  const tile::Program program =
      compile(example_algorithm("attention"),
              parse_schedule(shipped_schedule("sm90/flash3_cluster"), "flash3_cluster.yaml"), options);
  std::map<std::string, int> rows;
  for (const tile::Parameter& parameter : tile::parameters_of(program, program.kernels[0]))
    if (parameter.kind == tile::Parameter::Kind::tensor_map) rows[parameter.name] = parameter.rows;
  CHECK(rows == std::map<std::string, int>{{"K", 64}, {"Q", 128}, {"V", 64}});
  CHECK(cuda::emit(program).kernels[0].cluster == 2);
}

}  // namespace astatide::testing
