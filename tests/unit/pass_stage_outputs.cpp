#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"
#include "tests/support/tile_fault.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

tile::Stmt by_tma(tile::Stmt stmt) {
  std::get<tile::Copy>(stmt.node).via = tile::Via::tma;
  return stmt;
}

const tile::Mem kAccumulator = in_registers("acc", {{"i", 64}, {"e", 64}});
const tile::Mem kBetween = in_shared("O_s", {{"i", 64}, {"e", 64}}, 1, ScalarType::bf16);

tile::View rows_below(const std::string& limit) { return view("O[i, e]", {at("i", "i_o * 64", limit), at("e", 0)}); }

/// One tile of an output of n x 64, of type bf16.
tile::Program storing(std::vector<tile::Mem> mems, tile::Block body) {
  tile::Program program = one_kernel(std::move(mems), std::move(body));
  program.extents = {"n", "m"};
  program.tensors = {tensor(tile::Tensor::Role::output, "O", {"n", 64}, ScalarType::bf16)};
  program.kernels[0].tiles = {{"i_o", ceil_div(variable("n"), Expr(64))}};
  return program;
}

tile::Program storing(const std::string& limit) {
  return storing({kAccumulator}, {fill("acc", 1), by_tma(copy(rows_below(limit), "acc"))});
}

/// What verify says of statements in front of a store from shared memory, and behind.
std::string fault_of_store(const tile::Block& before, const tile::Block& behind) {
  tile::Block body{fill("acc", 1)};
  body.insert(body.end(), before.begin(), before.end());
  body.push_back(by_tma(copy(rows_below("n"), "O_s")));
  body.insert(body.end(), behind.begin(), behind.end());
  return fault_of(storing({kAccumulator, kBetween}, body), "stage_outputs");
}

const tile::Stmt kRound = copy("O_s", "acc");

}  // namespace

TEST_CASE("a tile that TMA stores goes through a slot in shared memory, rounded to the tensor's type") {
  tile::Program program = storing("n");
  CHECK(body_after("stage_outputs", program) == R"(fill acc = 1
reserve O_s
copy O_s <- acc
acquire O_s
copy O[i,e] at i = i_o*64 < n, e = 0 <- O_s via tma
release O_s
)");
  program.kernels[0].mems.push_back(in_registers("O_s", {{"i", 64}}));
  CHECK_THAT(body_after("stage_outputs", program), Catch::Contains("reserve O_s_2"));
}

TEST_CASE("other stores stay as they are") {
  CHECK(body_after("stage_outputs", one_kernel({kTile}, {kLoad, kStore})) ==
        text_of_body(one_kernel({kTile}, {kLoad, kStore})));
}

TEST_CASE("rows that end in front of the tensor's end are not for TMA, which would store them") {
  CHECK_THROWS_WITH(body_after("stage_outputs", storing("m")),
                    Catch::Contains("copy of O: tma stores up to the end of O, i = n, and its tiles end at m"));
}

TEST_CASE("rule: what TMA stores is a slot that was reserved and filled, and is free once it has been read") {
  CHECK(fault_of_store({reserve("O_s"), kRound, acquire("O_s")}, {release("O_s")}) == "");
  CHECK_THAT(fault_of_store({kRound}, {}), Catch::Contains("tma stores O_s, of which no slot is reserved"));
  CHECK_THAT(fault_of_store({reserve("O_s"), kRound}, {acquire("O_s"), release("O_s")}),
             Catch::Contains("O_s is read, but no slot of it is held"));
  CHECK_THAT(fault_of_store({reserve("O_s"), kRound, acquire("O_s")}, {}), Catch::Contains("never released"));
  CHECK_THAT(fault_of_store({reserve("O_s"), kRound, acquire("O_s")}, {release("O_s"), kRound}),
             Catch::Contains("O_s is written, but no slot of it is reserved"));
}

TEST_CASE("rule: no warp alone stores by TMA") {
  tile::Stmt alone = when("go", {by_tma(copy(rows_below("n"), "acc"))});
  std::get<tile::If>(alone.node).uniform = tile::If::Uniform::warp;
  CHECK_THAT(fault_of(storing({kAccumulator}, {fill("acc", 1), vote("go", "acc > 0"), alone})),
             Catch::Contains("stands under a condition of a warp, but takes more than one"));
}

}  // namespace astatide::testing
