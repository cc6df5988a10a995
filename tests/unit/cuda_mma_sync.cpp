// The emitted text of kernels on mma.sync and cp.async: what threads keep in registers while loops run.

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "compiler/pipeline.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

std::string tf32_text(const std::string& place_of_q = "shared") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const CompileOptions options{*find_target("sm_80"), algorithm.sizes, ScalarType::f32};
  const std::string schedule = with(shipped_schedule("sm80/flash2_tf32"), "Q: {stage_at: i.o, store_in: shared",
                                    "Q: {stage_at: i.o, store_in: " + place_of_q);
  return cuda::emit(compile(algorithm, parse_schedule(schedule, "s.yaml"), options)).text;
}

/// An example with heads of 64, tiles of `columns` keys.
std::string emitted(int columns, const char* copy = "cp_async, ring_buffer: 2",
                    const std::string& name = "causal_gqa") {
  const Algorithm algorithm = example_algorithm(name);
  const std::string schedule = fmt::format(R"(target: sm_80
rewrite: online
O: {{tile: {{i: 128, j: {0}}}, reorder: [b, h, i.o, j.o], gpu_blocks: [i.o, h, b], threads: [32, 4]}}
S: {{compute_at: j.o, store_in: register, mma: mma_sync}}
P: {{compute_at: j.o, store_in: register}}
Q: {{stage_at: i.o, store_in: shared, copy: cp_async}}
K: {{stage_at: j.o, store_in: shared, copy: {1}}}
V: {{stage_at: j.o, store_in: shared, copy: {1}}}
)",
                                           columns, copy);
  const CompileOptions options{*find_target("sm_80"), algorithm.sizes, ScalarType::bf16};
  return cuda::emit(compile(algorithm, parse_schedule(schedule, "schedule.yaml"), options)).text;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool has(const std::string& text, const std::string& part) { return count(text, part) > 0; }

}  // namespace

TEST_CASE("a lane of ldmatrix keeps one address a tile, to which steps add constants") {
  const std::string text = emitted(64);
  CHECK(has(text,
            "const unsigned K_s_at = shared_base + 0 + K_s_read * 8192 + 2 * in_panels<64>(lane % 8 + lane / 16 * 8, "
            "lane / 8 % 2 * 8);"));
  CHECK(has(text, "ldmatrix4(b_2, (K_s_at ^ k % 4 * 32) + k / 4 * 8192 + n * 2048);"));
  CHECK(has(text, "ldmatrix4_transposed(b_2, (V_s_at ^ n % 4 * 32) + n / 4 * 8192 + k * 2048);"));
}

TEST_CASE("a thread copies rows a step apart from one address, whose fixed part stands in front of the loops") {
  const std::string text = emitted(64);
  CHECK(count(text, "* Hkv / Hq") == 2);  // of K and of V, once each
  CHECK(has(text, "K_base + row_4 * K_stride_2 + column + ((j_o + 1) * 64) * K_stride_2;"));
  CHECK(has(text, "cp_async16(to + n * 2048, from + n * 16 * K_stride_2, n * 16 < rows_left);"));
}

TEST_CASE("a page is looked up for what lies within the limits alone") {
  const std::string text = emitted(64, "cp_async, ring_buffer: 2", "paged");
  CHECK(has(text,
            ", j < min(Sk, *(length + b * length_stride_0)) ? K_base + (*(page + b * page_stride_0 + (j / 16) * "
            "page_stride_1)) * K_stride_0"));
  for (const char* unguarded : {", K_base + (*(page", ", V_base + (*(page", "= *(K_base", "= *(V_base"})
    CHECK_FALSE(has(text, unguarded));
}

TEST_CASE("copies of a ring start behind the product that reads its oldest slot") {
  const std::string text = emitted(64);
  const std::size_t loop = text.find("for (int j_o"), product = text.find("// S = ", loop);
  CHECK(product < text.find("cp_async16", loop));
  CHECK(text.find("cp_async16", loop) < text.find("// map S", loop));
}

TEST_CASE("what is held of a left operand is loaded once") {
  const std::string text = emitted(64);
  CHECK(has(text, "Q_s_held[(2 * m_2 + 1) * 8 + 2 * k + 1] = a[3];"));
  CHECK(count(text, "Q_s_at ^") == 1);
  CHECK(text.find("Q_s_at ^") < text.find("for (int j_o"));
}

TEST_CASE("which tile a block computes is found again behind the loops") {
  const std::string text = emitted(64);
  CHECK(text.find("int block = block_number();") > text.rfind("for (int j_o"));
  CHECK(text.find("int block = block_number();") < text.find("// O <- O_tile"));
}

TEST_CASE("a multiprocessor is to hold as many blocks as fragments and shared memory leave room for") {
  CHECK(has(emitted(32), "__launch_bounds__(128, 3)"));
  CHECK(has(emitted(64), "__launch_bounds__(128, 2)"));
}

TEST_CASE("tf32: K is read by ldmatrix, V by element in the order that weights have in an accumulator, all rounded") {
  const std::string text = tf32_text();
  CHECK(
      has(text,
          "const unsigned K_s_at = shared_base + 0 + K_s_read * 8192 + 4 * in_panels<32, 32>(lane % 8 + lane / 16 * 8, "
          "lane / 8 % 2 * 4);"));
  CHECK(has(text, "ldmatrix4(b_2, (K_s_at ^ k % 4 * 32) + k / 4 * 4096 + n * 2048);"));
  CHECK(has(text, "to_tf32(b_2);"));
  CHECK(has(text, "4 * in_panels<32, 32>(lane % 4 * 2, lane / 4);"));
  CHECK(has(text, "4 * in_panels<32, 32>(lane % 4 * 2 + 1, lane / 4);"));
  CHECK(has(text, "b_2[0] = to_tf32(load_shared4((V_s_at ^ n % 4 * 32) + n / 4 * 4096 + k * 1024));"));
  CHECK(has(text, "b_2[1] = to_tf32(load_shared4((V_s_beside ^ n % 4 * 32) + n / 4 * 4096 + k * 1024));"));
  // Of an accumulator's row the two columns 2t and 2t + 1 are the first and the third register.
  CHECK(has(text, "a[m_2][0] = to_tf32(P_h[(2 * m_2 + 0) * 8 + 2 * k + 0]);"));
  CHECK(has(text, "a[m_2][2] = to_tf32(P_h[(2 * m_2 + 0) * 8 + 2 * k + 1]);"));
  CHECK_FALSE(has(text, "mma_16x8x16"));
}

TEST_CASE("tf32: what ldmatrix has dealt out is held as f32, and summed in the order of the instruction") {
  const std::string text = tf32_text("[shared, register]");
  CHECK(has(text, "float Q_s_held[64];  // (i, d) = (128, 64) over 32 x 4 threads"));
  CHECK(has(text, "Q_s_held[(2 * m_2 + 1) * 16 + 2 * k + 1] = __uint_as_float(a[3]);"));
  CHECK(has(text, "a[m_2][3] = to_tf32(Q_s_held[(2 * m_2 + 1) * 16 + 2 * k + 1]);"));
  CHECK(count(text, "Q_s_at ^") == 1);
}

TEST_CASE("copies through registers write the addresses that asynchronous ones do") {
  CHECK(has(emitted(64, "vector"), "copy16(to + n * 2048, from + n * 16 * K_stride_2, n * 16 < rows_left);"));
}

}  // namespace astatide::testing
