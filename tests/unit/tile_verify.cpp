#include <catch2/catch.hpp>

#include "tests/support/tile_fault.h"
#include "tests/support/tile_streaming.h"

// One test a rule: a program that keeps it passes, the same program with the fault in it is rejected.

namespace astatide::tile {
namespace {

using namespace build;
using Catch::Contains;

const Mem kShared = in_shared("s", {{"i", 4}});
/// Passes as it is, so that what a test puts in is what is rejected.
Program whole(Block between = {}, std::vector<Mem> more = {}) {
  Block body{kLoad};
  body.insert(body.end(), between.begin(), between.end());
  body.push_back(kStore);
  more.insert(more.begin(), kTile);
  return one_kernel(more, body);
}

}  // namespace

TEST_CASE("the hand-written programs that the tests start from keep every rule") {
  CHECK(fault_of(whole()).empty());
  CHECK(fault_of(streaming()).empty());
  CHECK(fault_of(streaming({4, 8, 3, 5, true})).empty());
}

TEST_CASE("a fault names the pass, the kernel and the statement") {
  const std::string fault = fault_of(one_kernel({kTile}, {kStore}), "stage_tiles");
  CHECK_THAT(fault, Contains("after stage_tiles") && Contains("kernel main") && Contains("copy Y[i] at i = 0 <- t"));
}

TEST_CASE("an unknown pass is refused, for its rules are unknown") {
  CHECK_THAT(fault_of(whole(), "shuffle_tiles"), Contains("no pass named shuffle_tiles"));
}

// ---------------------------------------------------------------- names

TEST_CASE("rule: every name stands for one thing") {
  CHECK_THAT(fault_of(whole({}, {kTile})), Contains("t is a tile, and a tile too"));
  CHECK_THAT(fault_of(whole({}, {in_registers("X", {})})), Contains("X is a tile, and a tensor too"));
  CHECK_THAT(fault_of(whole({loop("t", 0, 2, {})})), Contains("t is a loop variable, and a tile too"));
  CHECK_THAT(fault_of(whole({let("X", 1)})), Contains("X is a let, and a tensor too"));
  CHECK_THAT(fault_of(whole({vote("t", "t > 0")})), Contains("t is a flag"));
}

TEST_CASE("rule: nothing in scope is shadowed") {
  CHECK_THAT(fault_of(whole({loop("n", 0, 2, {loop("n", 0, 2, {})})})), Contains("a loop variable shadows n"));
  CHECK_THAT(fault_of(whole({let("n", 1), loop("n", 0, 2, {})})), Contains("a loop variable shadows n"));
  CHECK_THAT(fault_of(whole({loop("i", 0, 2, {kLoad})})), Contains("a coordinate shadows i"));
  CHECK_THAT(fault_of(whole({copy("t", view("X[i]", {at("i", 0), at("i", 1)}))})), Contains("i is given twice"));
  CHECK(fault_of(whole({loop("n", 0, 2, {}), loop("n", 0, 2, {})})).empty());
}

TEST_CASE("rule: two kernels have two names") {
  Program program = whole();
  program.kernels.push_back(program.kernels[0]);
  CHECK_THAT(fault_of(program), Contains("two kernels have this name"));
}

TEST_CASE("rule: every name in an expression is in scope") {
  CHECK_THAT(fault_of(whole({map("t", "t + nothing")})), Contains("nothing in scope is named nothing"));
  CHECK_THAT(fault_of(whole({loop("n", 0, 2, {}), map("t", "t + n")})), Contains("nothing in scope is named n"));
  CHECK_THAT(fault_of(whole({fill("u", 0)})), Contains("no tile is named u"));
  CHECK_THAT(fault_of(whole({loop("n", 0, "length", {})})), Contains("nothing in scope is named length"));
  CHECK_THAT(fault_of(whole({copy("u", "t")})), Contains("no tile is named u"));
}

TEST_CASE("rule: an index is built from integers") {
  CHECK_THAT(fault_of(whole({loop("n", 0, "t", {})})), Contains("t is no integer"));
  CHECK_THAT(fault_of(whole({copy("t", view("X[i]", {at("i", "X[0]")}))})),
             Contains("reads X, which holds no integers"));
}

TEST_CASE("rule: a view is of a tensor, with the right number of indices") {
  CHECK_THAT(fault_of(whole({copy("t", view("Z[i]", {at("i", 0)}))})), Contains("no tensor is named Z"));
  CHECK_THAT(fault_of(whole({copy("t", view("X[i, i]", {at("i", 0)}))})), Contains("X has 1 dimensions, not 2"));
  CHECK_THAT(fault_of(whole({map("t", "X[0, 1]")})), Contains("X has 1 dimensions, not 2"));
}

TEST_CASE("rule: inputs are not written, outputs are") {
  CHECK_THAT(fault_of(whole({copy(view("X[i]", {at("i", 0)}), "t")})), Contains("input X is written"));
  CHECK_THAT(fault_of(one_kernel({kTile}, {kLoad})), Contains("output Y is written by no kernel"));
}

TEST_CASE("rule: a scratch tensor is written before it is read") {
  Program program = whole({copy("t", view("W[i]", {at("i", 0)}))});
  program.tensors.push_back(tensor(Tensor::Role::scratch, "W", {4}));
  CHECK_THAT(fault_of(program), Contains("W is read, but nothing before has written it"));
  program.kernels[0].body.insert(program.kernels[0].body.begin() + 1, copy(view("W[i]", {at("i", 0)}), "t"));
  CHECK(fault_of(program).empty());
}

TEST_CASE("rule: a stage is of a tensor, at a loop or a tile axis") {
  Program program = whole();
  program.kernels[0].stagings = {{"X", "n", Space::shared, 1, 0, {}}};
  CHECK_THAT(fault_of(program), Contains("the stage of X is at n, which is no loop"));
  program.kernels[0].tiles = {{"n", Expr(1)}};
  CHECK(fault_of(program).empty());
  program.kernels[0].stagings[0].tensor = "Z";
  CHECK_THAT(fault_of(program), Contains("a stage is of Z, which is no tensor"));
}

// ---------------------------------------------------------------- shapes

TEST_CASE("rule: tiles have positive extents and distinct axes; rings are in shared memory") {
  CHECK_THAT(fault_of(whole({}, {in_registers("u", {{"i", 0}})})), Contains("u has extent 0 along i"));
  CHECK_THAT(fault_of(whole({}, {in_registers("u", {{"i", 2}, {"i", 2}})})), Contains("u has axis i twice"));
  Mem ring = in_registers("u", {{"i", 2}});
  ring.ring = 2;
  CHECK_THAT(fault_of(whole({}, {ring})), Contains("a ring of 2 in register"));
  Mem global = kShared;
  global.space = Space::global;
  CHECK_THAT(fault_of(whole({}, {global})), Contains("s is in global memory"));
}

TEST_CASE("rule: a product sums over exactly one axis, and extents agree") {
  const Mem a = in_registers("a", {{"i", 4}, {"k", 2}});
  const Mem b = in_registers("b", {{"k", 2}, {"j", 3}});
  const Mem c = in_registers("c", {{"i", 4}, {"j", 3}});
  const Block body{fill("a", 0), fill("b", 0), mma("c", "a", "b")};
  CHECK(fault_of(whole(body, {a, b, c})).empty());
  const Mem long_b = in_registers("b", {{"k", 5}, {"j", 3}});
  CHECK_THAT(fault_of(whole(body, {a, long_b, c})), Contains("b has extent 5 along k, the product 2"));
  const Mem long_c = in_registers("c", {{"i", 4}, {"j", 7}});
  CHECK_THAT(fault_of(whole(body, {a, b, long_c})), Contains("b has extent 3 along j, the product 7"));
  const Mem none = in_registers("b", {{"i", 4}, {"j", 3}});
  CHECK_THAT(fault_of(whole(body, {a, none, c})), Contains("sums over 0 axes"));
  const Mem narrow_c = in_registers("c", {{"i", 4}});
  CHECK_THAT(fault_of(whole(body, {a, b, narrow_c})), Contains("axis j of an operand is neither summed over"));
  const Mem wide_c = in_registers("c", {{"i", 4}, {"j", 3}, {"e", 2}});
  CHECK_THAT(fault_of(whole(body, {a, b, wide_c})), Contains("axis e of c is of neither operand"));
}

TEST_CASE("rule: a map's operands have no axis that its result lacks, and predicates come with an absent value") {
  const Mem wide = in_registers("u", {{"i", 4}, {"j", 2}});
  CHECK(fault_of(whole({map("u", "t")}, {wide})).empty());
  CHECK_THAT(fault_of(whole({fill("u", 0), map("t", "u")}, {wide})), Contains("does not lie within t [i: 4]"));
  Stmt bare = map("t", "t");
  std::get<Map>(bare.node).where_predicates = {Expr(1)};
  CHECK_THAT(fault_of(whole({bare})), Contains("predicates without an absent value"));
}

TEST_CASE("rule: a reduction's result has some of its source's axes") {
  const Mem row = in_registers("r", {});
  CHECK(fault_of(whole({row_reduce("r", Reduction::sum, "t")}, {row})).empty());
  CHECK_THAT(fault_of(whole({row_reduce("u", Reduction::sum, "t")}, {in_registers("u", {{"j", 4}})})),
             Contains("does not lie within"));
  CHECK_THAT(fault_of(whole({row_reduce("u", Reduction::sum, "t")}, {in_registers("u", {{"i", 4}})})),
             Contains("nothing is reduced"));
}

TEST_CASE("rule: the two sides of a copy agree, and one is a whole tile") {
  CHECK_THAT(fault_of(whole({copy("u", "t")}, {in_registers("u", {{"i", 3}})})),
             Contains("t [i: 4]") || Contains("u is [i: 3], t [i: 4]"));
  CHECK_THAT(fault_of(whole({copy(view("Y[i]", {at("i", 0)}), view("X[i]", {at("i", 0)}))})),
             Contains("no side is a whole tile"));
  CHECK_THAT(fault_of(whole({copy("t", view("X[0]", {}))})), Contains("axis i of t is none of the view's"));
  CHECK_THAT(fault_of(whole({copy("t", view("X[k]", {at("i", 0), at("k", 0)}))})), Contains("t has no axis k"));
  const Mem row = in_shared("row", {{"i", 8}});
  CHECK(fault_of(whole({copy(strip("row", {at("i", 4)}), "t")}, {row})).empty());
  CHECK_THAT(fault_of(whole({copy(strip("row", {}), "t")}, {row})), Contains("no origin is given along i"));
}

TEST_CASE("rule: acquire clears what a copy by tma brought, along an axis of the tile") {
  const auto cleared = [](const char* axis, Via via) {
    Stmt load = copy("s", view("X[i]", {at("i", 0)}));
    std::get<Copy>(load.node).via = via;
    return fault_of(whole({reserve("s"), load, statement(Acquire{"s", {at(axis, 0, 2)}}), release("s")}, {kShared}));
  };
  CHECK(cleared("i", Via::tma).empty());
  CHECK_THAT(cleared("k", Via::tma), Contains("s has no axis k"));
  CHECK_THAT(cleared("i", Via::vector), Contains("the copies into s have limits of their own"));
}

TEST_CASE("rule: columns lie within the last axis") {
  Stmt part = map("t", "t");
  std::get<Map>(part.node).columns = Columns{2, 5};
  CHECK_THAT(fault_of(whole({part})), Contains("columns 2..5 of t, which has 4"));
}

// ---------------------------------------------------------------- decisions

TEST_CASE("rule: no advance is left after relax_rescale") {
  CHECK(fault_of(streaming(), "split_masked_loops").empty());
  CHECK_THAT(fault_of(streaming(), "relax_rescale"), Contains("advance m to max(m, cand)") && Contains("is left"));
}

TEST_CASE("rule: no stage is left after stage_tiles") {
  Program staged = whole();
  staged.kernels[0].tiles = {{"n", Expr(1)}};
  staged.kernels[0].stagings = {{"X", "n", Space::shared, 1, 0, {}}};
  CHECK(fault_of(staged, "hoist_row_invariants").empty());
  CHECK_THAT(fault_of(staged, "stage_tiles"), Contains("the stage of X is left"));
}

namespace {

/// A product on two threads by two, laid out and placed.
Program placed() {
  Mem a = in_shared("a", {{"i", 4}, {"k", 4}});
  Mem b = in_shared("b", {{"k", 4}, {"j", 4}});
  Mem c = in_registers("c", {{"i", 4}, {"j", 4}});
  Mem r = in_registers("r", {{"i", 4}});
  const ThreadGrid grid{2, 2, 1, 1};
  a.layout = Rows{4};
  b.layout = Rows{5};
  c.layout = grid;
  r.layout = RowsOf{grid};
  a.offset = 0;
  b.offset = 64;
  Stmt product = mma("c", "a", "b");
  std::get<Mma>(product.node).by = Family::fma;
  Program program = one_kernel(
      {a, b, c, r}, {fill("a", 1), fill("b", 1), sync(), product, row_reduce("r", Reduction::sum, "c"),
                     all_reduce("r", Reduction::sum), map("c", "c * r"), copy(view("Y[i]", {at("i", 0)}), "r")});
  program.kernels[0].thread_rows = program.kernels[0].thread_columns = 2;
  program.kernels[0].shared_bytes = 64 + 80;
  return program;
}

Mem& mem_of(Program& program, const char* name) { return *program.kernels[0].find(name); }

}  // namespace

TEST_CASE("rule: after infer_layouts products have a family and tiles a layout of their space") {
  CHECK(fault_of(placed(), "infer_layouts").empty());
  Program program = placed();
  std::get<Mma>(program.kernels[0].body[3].node).by = Family::unset;
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("no family computes this product"));
  CHECK(fault_of(program, "insert_barriers").empty());

  program = placed();
  std::get<Mma>(program.kernels[0].body[3].node).rhs = view("X[k - k + j - j]", {at("k", 0, 4), at("j", 0, 4)});
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("an operand is in global memory"));
  CHECK(fault_of(program, "insert_barriers").empty());
  program = placed();
  mem_of(program, "a").layout = {};
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("a has no layout"));
  program = placed();
  mem_of(program, "a").layout = ThreadGrid{2, 2, 1, 1};
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("a is in shared, its layout is of another space"));
  program = placed();
  mem_of(program, "b").layout = Rows{3};
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("the rows of b overlap"));
}

TEST_CASE("rule: tensor cores read rows at multiples of 16 bytes") {
  const auto fault = [](Family by, int pitch) {
    Program program = placed();
    std::get<Mma>(program.kernels[0].body[3].node).by = by;
    for (const char* name : {"a", "b"})
      mem_of(program, name).type = ScalarType::bf16, mem_of(program, name).layout = Rows{8};
    mem_of(program, "b").layout = Rows{pitch};
    return fault_of(program, "infer_layouts");
  };
  CHECK_THAT(fault(Family::mma_sync, 20), Contains("rows of b are 40 bytes apart, an instruction reads 16 at a time"));
  CHECK(fault(Family::mma_sync, 24).empty());
  CHECK(fault(Family::fma, 20).empty());
}

TEST_CASE("rule: tensor cores take f32 as tf32 where a product says so, and nowhere else") {
  const auto fault = [](Family by, bool tf32, ScalarType left, ScalarType right) {
    Program program = placed();
    auto& product = std::get<Mma>(program.kernels[0].body[3].node);
    product.by = by, product.tf32 = tf32;
    mem_of(program, "a").type = left, mem_of(program, "b").type = right;
    mem_of(program, "a").layout = mem_of(program, "b").layout = Rows{16 / size_in_bytes(left)};
    return fault_of(program, "infer_layouts");
  };
  CHECK(fault(Family::mma_sync, true, ScalarType::f32, ScalarType::f32).empty());
  CHECK(fault(Family::mma_sync, false, ScalarType::bf16, ScalarType::bf16).empty());
  CHECK_THAT(fault(Family::mma_sync, false, ScalarType::f32, ScalarType::f32), Contains("f32, which is no tf32"));
  CHECK_THAT(fault(Family::mma_sync, true, ScalarType::f16, ScalarType::f16), Contains("tf32 is made of f32"));
  CHECK_THAT(fault(Family::mma_sync, false, ScalarType::f16, ScalarType::f32),
             Contains("the operands are f16 and f32"));
  CHECK_THAT(fault(Family::wgmma, true, ScalarType::f32, ScalarType::f32), Contains("tf32 is of mma_sync"));
  CHECK_THAT(fault(Family::fma, true, ScalarType::f32, ScalarType::f32), Contains("tf32 is of tensor cores"));
}

TEST_CASE("rule: after hold_operands nothing is left to hold") {
  Program program = placed();
  program.kernels[0].holds = {"a"};
  CHECK(fault_of(program, "stage_tiles").empty());
  CHECK_THAT(fault_of(program, "hold_operands"), Contains("a is left to hold"));
  program.kernels[0].holds = {"c"};
  CHECK_THAT(fault_of(program, "stage_tiles"), Contains("c is to be held, and is no tile in shared memory"));
}

TEST_CASE("rule: after infer_layouts tiles of one statement lie in the same threads") {
  Program program = placed();
  mem_of(program, "r").layout = RowsOf{{4, 1, 1, 1}};
  CHECK_THAT(fault_of(program, "infer_layouts"), Contains("lie in other threads"));
  program = placed();
  mem_of(program, "r").layout = RowsOf{{2, 2, 1, 4}};
  CHECK(fault_of(program, "infer_layouts").empty());
}

TEST_CASE("rule: after plan_memory shared tiles have places within what the kernel asks for") {
  CHECK(fault_of(placed(), "plan_memory").empty());
  Program program = placed();
  mem_of(program, "b").offset = -1;
  CHECK_THAT(fault_of(program, "plan_memory"), Contains("b has no place"));
  program = placed();
  mem_of(program, "b").offset = 80;
  CHECK_THAT(fault_of(program, "plan_memory"), Contains("b ends at 160, the kernel asks for 144"));
  program = placed();
  mem_of(program, "b").offset = 60;
  CHECK_THAT(fault_of(program, "plan_memory"),
             Contains("b, which shares its storage") || Contains("no multiple of 16"));
  program = placed();
  program.kernels[0].shared_bytes = -1;
  CHECK_THAT(fault_of(program, "plan_memory"), Contains("no shared memory is asked for"));
}

TEST_CASE("rule: tiles whose places overlap are not alive together") {
  Program program = placed();
  mem_of(program, "b").offset = 32;
  CHECK_THAT(fault_of(program, "plan_memory"), Contains("a is read, but b, which shares its storage"));
}

TEST_CASE("rule: an alias is of the same memory and no larger") {
  Mem alias = in_registers("u", {{"i", 8}});
  alias.alias = "t";
  CHECK_THAT(fault_of(whole({}, {alias})), Contains("u has 32 bytes, its alias t 16"));
  Mem other = kShared;
  other.alias = "t";
  CHECK_THAT(fault_of(whole({}, {other})), Contains("in different memories"));
  Mem lost = in_registers("u", {});
  lost.alias = "nothing";
  CHECK_THAT(fault_of(whole({}, {lost})), Contains("an alias of nothing, no tile"));
}

}  // namespace astatide::tile
