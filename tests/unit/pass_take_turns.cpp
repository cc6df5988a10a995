#include <catch2/catch.hpp>

#include "compiler/cuda/emit.h"
#include "tests/support/pass_text.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Block;

tile::Stmt by_wgmma(tile::Stmt stmt) {
  std::get<tile::Mma>(stmt.node).by = Family::wgmma;
  return stmt;
}
tile::Stmt score(const std::string& token = "") { return by_wgmma(mma_async("S", "Q_s", "K_s", token)); }
tile::Stmt output(const std::string& token = "") {
  tile::Stmt out = by_wgmma(mma_add("O", "P", "V_s"));
  std::get<tile::Mma>(out.node).token = token;
  return out;
}

/// Two consumers with this body.
std::string with_turns(Block body, bool alternate = true) {
  tile::Role role;
  role.name = "consumer";
  role.count = 2;
  role.body = std::move(body);
  tile::Program program = one_kernel({}, {statement(role)});
  program.kernels[0].alternate = alternate;
  return body_after("take_turns", program);
}

}  // namespace

TEST_CASE("a turn goes from the product that runs ahead to the delayed one, and is passed in front of the first wait") {
  CHECK(with_turns(
            {once("j", 0, {acquire("K_s"), score("ahead"), await("ahead"), release("K_s"), map("P", "S")}),
             loop("j", 1, "n",
                  {acquire("K_s"), score("ahead"), map("O", "O * f"), acquire("V_s"), output("delayed"), await("ahead"),
                   release("K_s"), map("R", "S"), await("delayed"), release("V_s"), map("P", "R")}),
             once("j", "n", {map("O", "O * f"), acquire("V_s"), output("delayed"), await("delayed")})}) ==
        R"(role consumer x2
  for j in 0 .. 1 once
    acquire K_s
    turn take
    mma S = Q_s * K_s by wgmma -> ahead
    turn pass
    await ahead
    release K_s
    map P = S
  for j in 1 .. n serial
    acquire K_s
    turn take
    mma S = Q_s * K_s by wgmma -> ahead
    map O = O * f
    acquire V_s
    mma O += P * V_s by wgmma -> delayed
    turn pass
    await ahead
    release K_s
    map R = S
    await delayed
    release V_s
    map P = R
  for j in n .. n+1 once
    map O = O * f
    acquire V_s
    turn take
    mma O += P * V_s by wgmma -> delayed
    turn pass
    await delayed
)");
}

TEST_CASE("without overlap a turn goes from the last product of a tile to the first of the next, through all loops") {
  const Block step{acquire("K_s"), score(), release("K_s"), map("P", "S"), acquire("V_s"), output(), release("V_s")};
  CHECK(with_turns(
            {acquire("Q_s"), loop("j", 0, "n", step), loop("j", "n", "m", step), release("Q_s"), map("O", "O * f")}) ==
        R"(role consumer x2
  acquire Q_s
  turn take
  for j in 0 .. n serial
    acquire K_s
    mma S = Q_s * K_s by wgmma -> S_done
    turn pass
    await S_done
    release K_s
    map P = S
    acquire V_s
    turn take
    mma O += P * V_s by wgmma -> O_done
    await O_done
    release V_s
  for j in n .. m serial
    acquire K_s
    mma S = Q_s * K_s by wgmma -> S_done
    turn pass
    await S_done
    release K_s
    map P = S
    acquire V_s
    turn take
    mma O += P * V_s by wgmma -> O_done
    await O_done
    release V_s
  turn pass
  release Q_s
  map O = O * f
)");
}

TEST_CASE("a loop that computes behind its last product, or nothing at all, takes a turn in every iteration") {
  CHECK(with_turns({loop("j", 0, "n", {score(), map("P", "S"), output(), map("P", "P + 1")})}) ==
        R"(role consumer x2
  for j in 0 .. n serial
    turn take
    mma S = Q_s * K_s by wgmma -> S_done
    turn pass
    await S_done
    map P = S
    turn take
    mma O += P * V_s by wgmma -> O_done
    turn pass
    await O_done
    map P = P + 1
)");
  CHECK(with_turns({loop("j", 0, "n", {acquire("K_s"), score(), release("K_s")}), map("P", "S")}) ==
        R"(role consumer x2
  for j in 0 .. n serial
    acquire K_s
    turn take
    mma S = Q_s * K_s by wgmma -> S_done
    turn pass
    await S_done
    release K_s
  map P = S
)");
}

TEST_CASE("products of one warp are in no turn, and without the request nothing changes") {
  tile::Stmt alone = mma("S", "Q_s", "K_s");
  std::get<tile::Mma>(alone.node).by = Family::mma_sync;
  const std::string text = with_turns({alone});
  CHECK(text.find("turn") == std::string::npos);
  CHECK(with_turns({score()}, false) == "role consumer x2\n  mma S = Q_s * K_s by wgmma\n");
}

TEST_CASE("emitted turns begin with the first consumer, and the last pass is taken at the end") {
  const std::string schedule = with(shipped_schedule("sm90/flash3"), "consumer: 2}", "consumer: 2, alternate: true}");
  const CompileOptions options{*find_target("sm_90a"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16};
  const std::string text =
      cuda::emit(compile(example_algorithm("causal_gqa"), parse_schedule(schedule, "s.yaml"), options)).text;
  const std::size_t begin = text.find("    if (warpgroup == 1) pass_turn<2>(warpgroup);"),
                    tiles = text.find("for (;;)", begin), first = text.find("take_turn<2>(warpgroup);", tiles),
                    product = text.find("wgmma_commit();", first),
                    pass = text.find("pass_turn<2>(warpgroup);", product),
                    wait = text.find("wgmma_wait<0>();", product),
                    end = text.find("\n    if (warpgroup == 0) take_turn<2>(warpgroup);");
  CHECK(begin < tiles);
  CHECK(tiles < first);
  CHECK(first < product);
  CHECK(product < pass);
  CHECK(pass < wait);
  CHECK(wait < end);
  CHECK(end != std::string::npos);
  // A sum that starts at its first product does so in its turn, too.
  CHECK(text.find("j_o + 1 == j_o_first ? 0 : 1") != std::string::npos);
}

}  // namespace astatide::testing
