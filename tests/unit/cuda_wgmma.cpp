// The emitted text of kernels with roles: how persistent blocks walk over tiles, and what a tile's iterations test.

#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "tests/support/case_run.h"
#include "tests/support/messages.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

std::string kernel_of(const std::string& algorithm, const std::string& schedule) {
  Sizes sizes{{"D", head_size_of(schedule)}, {"Dv", head_size_of(schedule)}};
  const CompileOptions options{*find_target("sm_90a"), sizes, ScalarType::bf16};
  return cuda::emit(
             compile(example_algorithm(algorithm), parse_schedule(shipped_schedule(schedule), schedule), options))
      .text;
}

std::size_t place_of(const std::string& text, const std::string& part, std::size_t from = 0) {
  INFO(part);
  const std::size_t found = text.find(part, from);
  REQUIRE(found != std::string::npos);
  return found;
}

}  // namespace

TEST_CASE("the producer finds the place of a tile and passes it on before it copies, the consumers divide nothing") {
  const std::string text = kernel_of("causal_gqa", "sm90/flash3");
  const std::size_t consumers = place_of(text, "take_registers<232>");
  const std::string producer = text.substr(0, consumers), rest = text.substr(consumers);
  CHECK(place_of(producer, "[0] = tile < tiles ? i_o : -1;") < place_of(producer, "tile = draw_tile(tile_counter);"));
  CHECK(place_of(producer, "tile = draw_tile(tile_counter);") < place_of(producer, "tma_load("));
  CHECK(contains(producer, "block % Hq"));
  // Q has one slot: it comes into L2 while the producer waits for that, and the first K goes before it.
  CHECK(place_of(producer, "tma_load((K_s") < place_of(producer, "tma_prefetch(&Q_map"));
  CHECK(place_of(producer, "tma_prefetch(&Q_map") < place_of(producer, "tma_load(Q_s"));
  CHECK_FALSE(contains(rest, "% Hq"));
  CHECK(contains(rest, "if (__any_sync(0xffffffffu, next < 0)) break;"));
  // h and b only say where O and L lie.
  CHECK(place_of(rest, "const int h = __shfl_sync(") > place_of(rest, "// last"));
}

TEST_CASE("tiles of several heads are taken together, in groups alike in size, where loops differ in length") {
  const std::string causal = kernel_of("causal_gqa", "sm90/flash3");
  CHECK(contains(causal, "const int rest = Hq * B;"));
  // Of K and of V a half of five eighths of 50 MiB, in elements of 2 bytes; two tiles for each of 132 multiprocessors.
  CHECK(contains(causal, "const int groups = (rest - 1) / (max(min(min(8192000 / max(Sk, 1) / max(128, 1), "));
  CHECK(contains(causal, "263 / max((Sq + 127) / 128, 1) + 1"));
  CHECK(contains(causal, "const int i_o = ((Sq + 127) / 128) - 1 - block / size;"));
  CHECK_FALSE(contains(kernel_of("attention", "sm90/flash3"), "groups"));
}

TEST_CASE("what TMA copies beyond an item's length is cleared in front of the product that sums it") {
  const std::string text = kernel_of("padded", "sm90/flash3");
  const std::size_t branch = place_of(text, "if (__any_sync(0xffffffffu, present < 128))");
  CHECK(place_of(text, "const int present = min(Sk, *(length + b * length_stride_0)) - j_o * 128 - 128;") < branch);
  CHECK(place_of(text, "(V_s + V_s_read * 16384) + in_panels<128>(n / 16, n % 16 * 8)) = make_uint4(0, 0, 0, 0);",
                 branch) < place_of(text, "fence_async_proxy();", branch));
  CHECK(place_of(text, "fence_async_proxy();", branch) < place_of(text, "warpgroup_sync(warpgroup);", branch));
  CHECK(place_of(text, "warpgroup_sync(warpgroup);", branch) < place_of(text, "// O_acc += P_h * V_s", branch));
  CHECK_FALSE(contains(text, "rows of K_s beyond"));
  CHECK_FALSE(contains(kernel_of("causal_gqa", "sm90/flash3"), "beyond"));
}

TEST_CASE("a mask that bounds the columns of a row is compared once a row") {
  const std::string window = kernel_of("sliding_window", "sm90/flash3");
  CHECK(contains(window, "const int first_visible = i + Sk - Left - Sq - (j_o * 128 + thread_column * 2);") !=
        contains(window, "const int first_visible = Sk + i - Left - Sq - (j_o * 128 + thread_column * 2);"));
  CHECK(contains(window, "c % 2 + c / 2 * 8 >= first_visible && c % 2 + c / 2 * 8 < end_visible ?"));
  // What is no such bound is tested as it stands, and so is everything where registers are short.
  const std::string dilated = kernel_of("dilated", "sm90/flash3");
  CHECK(contains(dilated, "c % 2 + c / 2 * 8 < end_visible && floor_mod(i + Sk - Sq - j, Step) == 0 ?"));
  CHECK_FALSE(contains(kernel_of("causal_gqa", "sm80/flash2"), "end_visible"));
}

TEST_CASE("a delayed product starts its sum by its predicate, and a tile tests its mask in one branch") {
  const std::string text = kernel_of("attention", "sm90/flash3");
  CHECK(contains(text, "rhs + 0, j_o + 1 == j_o_first ? 0 : 1);"));
  CHECK(contains(text, "if (j_o_full_end <= j_o_first) {"));
  CHECK_FALSE(contains(text, "O_acc[r * 32 + c] = 0.0f;"));
}

TEST_CASE("rows are scaled by plain products or, where one saw no key, by those that 0 absorbs") {
  const std::string text = kernel_of("attention", "sm90/flash3");
  const std::size_t plain = place_of(text, "if (!infinite) {");
  CHECK(place_of(text, "O_acc[r * 32 + c] = O_acc[r * 32 + c] * row_3[r];", plain) < place_of(text, "else {", plain));
  CHECK(place_of(text, "absorb(O_acc[r * 32 + c], row_3[r])", plain) > place_of(text, "else {", plain));
}

TEST_CASE("each consumer stores its own rows by TMA, behind its own threads and its own last copy") {
  const std::string text = kernel_of("causal_gqa", "sm90/flash3_tma_store");
  const std::size_t consumers = place_of(text, "take_registers<232>");
  CHECK(contains(text, "const __grid_constant__ TensorMap O_map"));
  CHECK_FALSE(contains(text, "O_stride"));
  // The producer knows nothing of it, and the slot has no barriers.
  CHECK_FALSE(contains(text.substr(0, consumers), "tma_store"));
  CHECK_FALSE(contains(text, "O_s is full"));
  const std::string free = "if (thread % 128 == 0) tma_wait_until_read();", meet = "warpgroup_sync(warpgroup);";
  std::size_t next = place_of(text, free, consumers);
  next = place_of(text, meet, next);
  next = place_of(text, "stmatrix4((O_s_at ^ n % 4 * 32) + n / 4 * 16384 + m_2 * 8 * 2048, pack2<bf16>(", next);
  next = place_of(text, "fence_async_proxy();", next);
  next = place_of(text, meet, next);
  next = place_of(text, "if (thread % 128 == 0) {", next);
  for (const char* panel : {"O_s + 0 + warpgroup * 4096, 0,", "O_s + 8192 + warpgroup * 4096, 64,"})
    next = place_of(text, std::string("tma_store(&O_map, ") + panel + " i_o * 128 + 0 + warpgroup * 64, ", next);
  next = place_of(text, "tma_store_commit();", next);
  // The block ends when all has been read, and in no iteration before.
  next = place_of(text, "}\n    " + free, next);
  CHECK_FALSE(contains(text.substr(next + free.size()), free));
}

TEST_CASE("a tile of two blocks of rows a consumer, and of columns that fill no panel, is stored block by block") {
  const std::string schedule = with(shipped_schedule("sm90/flash3_tma_store"), "{i: 128, j: 128}", "{i: 256, j: 64}");
  const CompileOptions options{*find_target("sm_90a"), {{"D", 64}, {"Dv", 24}}, ScalarType::f16};
  const std::string text =
      cuda::emit(compile(example_algorithm("causal_gqa"), parse_schedule(schedule, "s.yaml"), options)).text;
  CHECK(contains(text, "tma_store(&O_map, O_s + 0 + warpgroup * 4096, 0, i_o * 256 + 0 + warpgroup * 64, "));
  CHECK(contains(text, "tma_store(&O_map, O_s + 8192 + warpgroup * 4096, 0, i_o * 256 + 128 + warpgroup * 64, "));
  // Three matrices of 8 columns: the fourth of the second step lies beyond them.
  CHECK(contains(text, "for (int n = 0; n < 1; ++n) {"));
  CHECK(contains(text, ", 0u, 0u);"));
}

TEST_CASE("what TMA copies lies in panels, also where nothing but registers reads it and no panel is full") {
  const std::string text = with(shipped_schedule("sm90/flash3"), "Q: {stage_at: i.o, store_in: shared",
                                "Q: {stage_at: i.o, store_in: [shared, register]");
  for (const std::int64_t width : {8, 16, 40, 72, 128}) {
    const CompileOptions options{*find_target("sm_90a"), {{"D", width}, {"Dv", width}}, ScalarType::bf16};
    const tile::Program program = compile(attention(), parse_schedule(text, "held.yaml"), options);
    const tile::Mem* held = program.kernels[0].find("Q_s");
    INFO("D " << width);
    REQUIRE(held);
    CHECK(std::holds_alternative<tile::Panels>(held->layout));
    // A box of rows of whole panels fits.
    CHECK(held->byte_count() == held->extent_of("i") * ((width + 63) / 64) * 128);
  }
}

}  // namespace astatide::testing
