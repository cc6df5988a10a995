#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Block;

/// Four warps; S of 128 x 128 in registers, Q and K of 128 x `width` in shared memory.
std::string held(Block body, int width = 64) {
  tile::Program program = one_kernel({in_registers("S", {{"i", 128}, {"j", 128}}), in_registers("m", {{"i", 128}}),
                                      in_shared("Q", {{"i", 128}, {"d", width}}, 1, ScalarType::bf16),
                                      in_shared("K", {{"j", 128}, {"d", width}}, 1, ScalarType::bf16)},
                                     tile::transform_blocks(body, [](Block block) {
                                       for (tile::Stmt& stmt : block)
                                         if (auto* product = std::get_if<tile::Mma>(&stmt.node))
                                           product->by = tile::Family::mma_sync;
                                       return block;
                                     }));
  program.extents = {"n"};
  program.kernels[0].thread_rows = 32, program.kernels[0].thread_columns = 4;
  return body_after("hold_operands", program);
}

const tile::Stmt kFill = copy("Q", view("X[i, d]", {at("i", 0), at("d", 0)}));
const tile::Stmt kProduct = mma("S", "Q", "K"), kReduce = row_reduce("m", Reduction::max, "S");

}  // namespace

TEST_CASE("a left operand that no loop changes is loaded into registers in front of the loops") {
  CHECK(held({kFill, loop("j_o", 0, "n", {kProduct, kReduce})}) == R"(copy Q <- X[i,d] at i = 0, d = 0
copy Q_held <- Q via ldmatrix
for j_o in 0 .. n serial
  mma S = Q_held * K by mma_sync
  row_reduce m = max S
)");
}

TEST_CASE("a left operand stays in shared memory where its fragments would not fit") {
  CHECK(held({kFill, loop("j_o", 0, "n", {kProduct, kReduce})}, 256).find("Q_held") == std::string::npos);
}

TEST_CASE("a left operand that a loop fills, or that is read elsewhere, stays in shared memory") {
  CHECK(held({loop("j_o", 0, "n", {kFill, kProduct, kReduce})}).find("Q_held") == std::string::npos);
  CHECK(held({kFill, loop("j_o", 0, "n", {kProduct, kReduce}), kProduct, kReduce}).find("Q_held") == std::string::npos);
  CHECK(held({kFill, loop("j_o", 0, "n", {mma("S", "Q", "Q"), kReduce})}).find("Q_held") == std::string::npos);
}

namespace {

/// As a schedule asks: Q in the slot of a ring that TMA fills, read by both families.
std::string held_as_asked(Block body) {
  tile::Program program = one_kernel(
      {in_registers("S", {{"i", 128}, {"j", 128}}), in_shared("Q", {{"i", 128}, {"d", 256}}, 2, ScalarType::bf16),
       in_shared("K", {{"j", 128}, {"d", 256}}, 1, ScalarType::bf16)},
      std::move(body));
  program.extents = {"n"};
  program.kernels[0].thread_rows = 64, program.kernels[0].thread_columns = 4;
  program.kernels[0].producers = 1;
  program.kernels[0].holds = {"Q"};
  return body_after("hold_operands", program);
}

tile::Stmt by(tile::Family family, tile::Stmt product) {
  std::get<tile::Mma>(product.node).by = family;
  return product;
}

const tile::Stmt kReserve = reserve("Q"), kAcquire = acquire("Q"), kRelease = release("Q");

}  // namespace

TEST_CASE("what a schedule wants held is read once, by either family, and its slot released then") {
  const tile::Stmt cold = when("n", {by(tile::Family::mma_sync, kProduct)});
  CHECK(held_as_asked({kReserve, kFill, kAcquire, loop("j_o", 0, "n", {by(tile::Family::wgmma, kProduct), cold}),
                       kRelease}) == R"(reserve Q
copy Q <- X[i,d] at i = 0, d = 0
acquire Q
copy Q_held <- Q via ldmatrix
release Q
for j_o in 0 .. n serial
  mma S = Q_held * K by wgmma
  if n uniform block
    mma S = Q_held * K by mma_sync
)");
}

TEST_CASE("what is to be held and is no left operand alone is refused") {
  CHECK_THROWS_WITH(held_as_asked({kReserve, kFill, kAcquire,
                                   loop("j_o", 0, "n", {by(tile::Family::wgmma, mma("S", "Q", "Q"))}), kRelease}),
                    Catch::Contains("store_in: [shared, register] of Q: a statement other than a product of tensor "
                                    "cores with it on the left reads it, too"));
}

}  // namespace astatide::testing
