#include <catch2/catch.hpp>

#include "tests/support/tile_streaming.h"

namespace astatide::tile {
namespace {

using namespace build;

std::string line(const Stmt& stmt) {
  const std::string text = print(stmt);
  return text.substr(0, text.size() - 1);
}

}  // namespace

TEST_CASE("a program is printed with its facts, tensors, tiles and statements") {
  Program program = streaming({64, 32, 16, 24, true});
  program.bounds = {{"Sk", 1024}};
  program.scalars = {"scale"};
  program.kernels[0].thread_rows = program.kernels[0].thread_columns = 16;
  program.kernels[0].stagings = {{"K", "j_o", Space::shared, 2, 4, {{"d", 8}}}};
  CHECK(print(program) == R"(program streaming
extents B, Sq, Sk
known D = 16, Dv = 24
bound Sk <= 1024
scalars scale
input   Q: f32[B, Sq, D]
input   K: f32[B, Sk, D]
input   V: f32[B, Sk, Dv]
output  M: f32[B, Sq]
output  L: f32[B, Sq]
output  O: f32[B, Sq, Dv]

kernel main tiles(i_o: (Sq+63)/64, b: B) threads 16 x 16
  stage K at j_o in shared ring 2 width 4 align d 8
  S:    f32[i: 64, j: 32] in register
  P:    f32[i: 64, j: 32] in register
  cand: f32[i: 64]        in register
  m:    f32[i: 64]        in register
  l:    f32[i: 64]        in register
  t:    f32[i: 64]        in register
  acc:  f32[i: 64, e: 24] in register
  fill m = -inf
  fill l = 0
  fill acc = 0
  for j_o in 0 .. (Sk+31)/32 serial
    mma S = (Q[b,i,d] at i = i_o*64 < Sq, d = 0 < D) * (K[b,j,d] at j = j_o*32 < Sk, d = 0 < D)
    map S = S where j <= i + Sk - Sq absent -inf at i = i_o*64 < Sq, j = j_o*32 < Sk
    row_reduce cand = max S
    all_reduce cand max
    advance m to max(m, cand) moving l by l * exp(m - safe(m_new)), acc by acc * exp(m - safe(m_new))
    map P = exp(S - safe(m))
    row_reduce t = sum P
    map l = l + t
    mma acc += P * (V[b,j,e] at j = j_o*32 < Sk, e = 0 < Dv)
  all_reduce l sum
  copy M[b,i] at i = i_o*64 < Sq <- m
  copy L[b,i] at i = i_o*64 < Sq <- l
  map acc = absorb(select(l == 0, 0, 1.0 / l), acc)
  copy O[b,i,e] at i = i_o*64 < Sq, e = 0 < Dv <- acc
)");
}

TEST_CASE("the attributes of a tile follow its space") {
  Program program = one_kernel({in_shared("K_s", {{"j", 64}, {"d", 64}}, 2, ScalarType::bf16),
                                in_registers("S", {{"i", 64}, {"j", 64}}), in_registers("l", {{"i", 64}})},
                               {});
  Kernel& kernel = program.kernels[0];
  kernel.find("K_s")->layout = Rows{72};
  kernel.find("K_s")->align = {{"d", 8}};
  kernel.find("K_s")->offset = 128;
  kernel.find("S")->layout = ThreadGrid{16, 16, 1, 4};
  kernel.find("l")->layout = RowsOf{{16, 16, 1, 1}};
  kernel.find("l")->partial = Reduction::sum;
  kernel.find("l")->alias = "S";
  kernel.vector_lanes = 8;
  kernel.shared_bytes = 18560;
  CHECK(print(kernel) == R"(kernel main tiles() lanes 8 shared 18560
  K_s: bf16[j: 64, d: 64] in shared ring 2 layout rows pitch 72 align d 8 offset 128
  S:   f32[i: 64, j: 64]  in register layout thread_grid<16x16, 1x4>
  l:   f32[i: 64]         in register layout rows of thread_grid<16x16, 1x1> partial sum alias S
)");
}

TEST_CASE("every statement has a text") {
  Stmt part = map("P", "S * 2");
  std::get<Map>(part.node).columns = Columns{0, 4};
  CHECK(line(part) == "map P cols 0..4 = S * 2");
  Stmt sum = row_reduce("t", Reduction::sum, "P", true);
  std::get<RowReduce>(sum.node).columns = Columns{4, 8};
  CHECK(line(sum) == "row_reduce t sum= sum P cols 4..8");
  Stmt product = mma_async("S", "Q_s", "K_s", "head");
  std::get<Mma>(product.node).by = Family::wgmma;
  std::get<Mma>(product.node).unroll = 4;
  CHECK(line(product) == "mma S = Q_s * K_s by wgmma unroll 4 -> head");
  Stmt load = copy("K_s", view("K[b, h*Hkv/Hq, j, d]", {at("j", "j_o*64", "Sk"), at("d", 0)}, 1.5), "k");
  std::get<Copy>(load.node).via = Via::cp_async;
  std::get<Copy>(load.node).vector = 4;
  CHECK(line(load) ==
        "copy K_s <- K[b, h*Hkv/Hq, j, d] at j = j_o*64 < Sk, d = 0 absent 1.5 via cp_async width 4 -> k");
  CHECK(line(copy(strip("row", {at("j", "j_o*64")}, -1), "S")) == "copy row at j = j_o*64 absent -1 <- S");
  CHECK(line(await("k")) == "await k");
  CHECK(line(reserve("K_s")) == "reserve K_s");
  CHECK(line(acquire("K_s")) == "acquire K_s");
  CHECK(line(release("K_s")) == "release K_s");
  CHECK(line(sync()) == "sync");
  CHECK(line(let("last", "min(n, (Sk + 63)/64)")) == "let last = min(n, (Sk+63)/64)");
  CHECK(line(vote("moved", "cand - m > 30")) == "vote moved = any cand - m > 30");
}

TEST_CASE("blocks are indented, with the kind of a loop and the uniformity of a condition") {
  Stmt inner = when("moved", {sync()});
  std::get<If>(inner.node).cold = true;
  std::get<If>(inner.node).uniform = If::Uniform::warp;
  Stmt outer = loop("j_o", "first", "last", {inner});
  std::get<For>(outer.node).descending = true;
  std::get<For>(outer.node).kind = For::Kind::unrolled;
  std::get<For>(outer.node).note = "partial";
  Role role;
  role.name = "producer";
  role.registers = 24;
  role.body = {outer, once("j_o", "last - 1", {})};
  CHECK(print(statement(role), 2) == R"(  role producer x1 registers 24
    for j_o in first .. last descending unrolled  # partial
      if moved uniform warp cold
        sync
    for j_o in last-1 .. last-1+1 once
)");
}

TEST_CASE("predicates joined by or stand in parentheses") {
  const Stmt masked = map_where("S", "S", {"j < 4 or j > 8", "j < Sk"}, 0, {at("j", 0)});
  CHECK(line(masked) == "map S = S where (j < 4 or j > 8) and j < Sk absent 0 at j = 0");
}

}  // namespace astatide::tile
