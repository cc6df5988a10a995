#include <catch2/catch.hpp>

#include "tests/support/tile_fault.h"
#include "tests/support/tile_streaming.h"

// The rules about order: what is written before it is read, awaited, released, made whole, synced.

namespace astatide::tile {
namespace {

using namespace build;
using Catch::Contains;

std::string fault_of(std::vector<Mem> mems, const Block& body, std::string_view pass = "lower", int threads = 0) {
  mems.push_back(in_registers("result", {{"i", 4}}));
  Program program = one_kernel(std::move(mems), body);
  program.kernels[0].body.push_back(fill("result", 0));
  program.kernels[0].body.push_back(copy(view("Y[i]", {at("i", 0)}), "result"));
  program.kernels[0].thread_rows = threads;
  program.kernels[0].thread_columns = 1;
  return build::fault_of(program, pass);
}

}  // namespace

// ---------------------------------------------------------------- definite assignment

TEST_CASE("rule: a tile is read only after a write on every path") {
  CHECK_THAT(fault_of({kTile}, {kStore}), Contains("t is read, but not written on every path"));
  CHECK(fault_of({kTile}, {kLoad, kStore}).empty());
  CHECK_THAT(fault_of({kTile}, {map("t", "t + 1"), kStore}), Contains("map t = t + 1: t is read"));
}

TEST_CASE("rule: a write in a loop that may run zero times does not count after it") {
  Program program = one_kernel({kTile}, {loop("n", 0, "N", {kLoad}), kStore});
  program.extents = {"N"};
  CHECK_THAT(fault_of(program), Contains("t is read, but not written on every path"));
  CHECK(fault_of({kTile}, {loop("n", 0, 2, {kLoad}), kStore}).empty());
  CHECK(fault_of({kTile}, {once("n", 3, {kLoad}), kStore}).empty());
  // It counts inside, after it; not in front of it, where only later iterations have it.
  CHECK_THAT(fault_of({kTile}, {loop("n", 0, 2, {kStore, kLoad})}), Contains("t is read"));
}

TEST_CASE("rule: a write under a condition counts under the same condition only") {
  const Mem u = in_registers("u", {{"i", 4}});
  const Stmt write = when("go", {map("u", "t")});
  const Stmt use = when("go", {map("t", "t + u")});
  const Stmt decide = vote("go", "t > 0");
  CHECK(fault_of({kTile, u}, {kLoad, decide, write, use}).empty());
  CHECK_THAT(fault_of({kTile, u}, {kLoad, decide, write, map("t", "t + u")}), Contains("u is read"));
  CHECK_THAT(fault_of({kTile, u}, {kLoad, decide, write, decide, use}), Contains("u is read"));
  CHECK_THAT(fault_of({kTile, u}, {kLoad, write}), Contains("go"));
  CHECK_THAT(fault_of({kTile, u}, {kLoad, decide, write, vote("stop", "t < 0"), when("stop", {map("t", "u")})}),
             Contains("u is read"));
  // A vote that a loop repeats may turn out otherwise the next time.
  CHECK_THAT(fault_of({kTile, u}, {kLoad, decide, write, loop("n", 0, 2, {use, decide})}), Contains("u is read"));
}

TEST_CASE("rule: a flag is read only after a vote") {
  CHECK_THAT(fault_of({kTile}, {kLoad, when("go", {kStore}), vote("go", "t > 0")}), Contains("go is read"));
}

TEST_CASE("rule: columns count for themselves") {
  const Mem u = in_registers("u", {{"i", 4}});
  const auto part = [](int begin, int end) {
    Stmt out = map("u", "t");
    std::get<Map>(out.node).columns = Columns{begin, end};
    return out;
  };
  const Stmt use = copy("t", "u");
  CHECK_THAT(fault_of({kTile, u}, {kLoad, part(0, 2), use}), Contains("u is read"));
  CHECK_THAT(fault_of({kTile, u}, {kLoad, part(0, 1), part(2, 4), use}), Contains("u is read"));
  CHECK(fault_of({kTile, u}, {kLoad, part(2, 4), part(0, 2), use}).empty());
  const Mem sum = in_registers("sum", {});
  Stmt reduce_part = row_reduce("sum", Reduction::sum, "u");
  std::get<RowReduce>(reduce_part.node).columns = Columns{0, 2};
  CHECK(fault_of({kTile, u, sum}, {kLoad, part(0, 2), reduce_part}).empty());
}

TEST_CASE("rule: a strip is read after some strip of it has been written") {
  const Mem row = in_shared("row", {{"i", 8}});
  const Stmt read_strip = copy("t", strip("row", {at("i", 0)}));
  CHECK_THAT(fault_of({kTile, row}, {read_strip}), Contains("row is read"));
  CHECK(fault_of({kTile, row}, {kLoad, copy(strip("row", {at("i", 4)}), "t"), read_strip}).empty());
}

TEST_CASE("rule: a tile does not outlive a write to its storage") {
  Mem u = in_registers("u", {{"i", 4}});
  u.alias = "t";
  CHECK(fault_of({kTile, u}, {kLoad, map("u", "t + 1"), map("t", "u")}).empty());
  CHECK_THAT(fault_of({kTile, u}, {kLoad, map("u", "t + 1"), kStore}), Contains("t is read, but u, which shares"));
  // The second iteration finds what the first has left.
  CHECK_THAT(fault_of({kTile, u}, {kLoad, loop("n", 0, 2, {map("u", "t + 1")})}), Contains("t is read, but u"));
}

// ---------------------------------------------------------------- tokens

TEST_CASE("rule: nothing conflicts with what is open") {
  const Stmt start = copy("t", view("X[i]", {at("i", 0)}), "k");
  CHECK(fault_of({kTile}, {start, await("k"), kStore}).empty());
  CHECK_THAT(fault_of({kTile}, {start, kStore, await("k")}), Contains("touches t, which token k has not been awaited"));
  CHECK_THAT(fault_of({kTile}, {start, kLoad, await("k")}), Contains("touches t"));
  const Mem a = in_shared("a", {{"i", 4}, {"k", 2}});
  const Mem b = in_shared("b", {{"k", 2}, {"j", 4}});
  const Mem c = in_registers("c", {{"i", 4}, {"j", 4}});
  const Block before{fill("a", 0), fill("b", 0), mma_async("c", "a", "b", "head")};
  const auto with = [&](std::initializer_list<Stmt> more) {
    Block out = before;
    out.insert(out.end(), more);
    return out;
  };
  // What it reads may be read, but not written.
  CHECK(fault_of({kTile, a, b, c}, with({copy(view("Y[i]", {at("i", 0), at("k", 0)}), "a"), await("head")})).empty());
  CHECK_THAT(fault_of({a, b, c}, with({fill("a", 1), await("head")})), Contains("touches a"));
}

TEST_CASE("rule: a token is awaited on every path, in the iteration that started it") {
  const Stmt start = copy("t", view("X[i]", {at("i", 0)}), "k");
  CHECK_THAT(fault_of({kTile}, {start}), Contains("token k is never awaited"));
  CHECK_THAT(fault_of({kTile}, {kLoad, await("k")}), Contains("token k is not open"));
  CHECK_THAT(fault_of({kTile}, {loop("n", 0, 2, {start})}), Contains("not awaited in the iteration that starts it"));
  CHECK_THAT(fault_of({kTile}, {start, when("0 < 1", {await("k")}), kStore}), Contains("on one path only"));
  CHECK_THAT(fault_of({kTile}, {start, loop("n", 0, 2, {await("k")})}), Contains("token k"));
  CHECK_THAT(fault_of({kTile}, {start, start, await("k")}), Contains("touches t") || Contains("still open"));
}

// ---------------------------------------------------------------- rings

namespace {

const Mem kSlot = in_shared("slot", {{"i", 4}}, 2);
const Stmt kFillSlot = copy("slot", view("X[i]", {at("i", 0)}));
const Stmt kUseSlot = copy("t", "slot");

}  // namespace

TEST_CASE("rule: a slot is written when reserved and read when held") {
  const Block good{reserve("slot"), kFillSlot, acquire("slot"), kUseSlot, release("slot")};
  CHECK(fault_of({kTile, kSlot}, good).empty());
  CHECK_THAT(fault_of({kTile, kSlot}, {reserve("slot"), kFillSlot, kUseSlot, acquire("slot"), release("slot")}),
             Contains("slot is read, but no slot of it is held"));
  CHECK_THAT(fault_of({kTile, kSlot}, {kFillSlot, reserve("slot"), acquire("slot"), release("slot")}),
             Contains("slot is written, but no slot of it is reserved"));
  CHECK_THAT(fault_of({kTile, kSlot}, {reserve("slot"), kFillSlot, release("slot")}), Contains("no slot is held"));
  CHECK_THAT(fault_of({kTile, kSlot}, {acquire("slot"), reserve("slot"), kFillSlot, release("slot")}),
             Contains("never returns"));
  CHECK_THAT(fault_of({kTile, kSlot}, {reserve("slot"), reserve("slot"), reserve("slot")}),
             Contains("all 2 slots are taken"));
}

TEST_CASE("rule: a slot is released behind the await of what reads it") {
  const auto use = [](const Stmt& first, const Stmt& second) {
    return Block{reserve("slot"), kFillSlot, acquire("slot"), copy("t", "slot", "k"), first, second};
  };
  CHECK(fault_of({kTile, kSlot}, use(await("k"), release("slot"))).empty());
  CHECK_THAT(fault_of({kTile, kSlot}, use(release("slot"), await("k"))),
             Contains("token k, which has not been awaited for, reads the slot"));
}

TEST_CASE("rule: as many slots are held at the end of a loop body as at its start") {
  const Block step{reserve("slot"), kFillSlot, acquire("slot"), kUseSlot};
  Block with_release = step;
  with_release.push_back(release("slot"));
  CHECK(fault_of({kTile, kSlot}, {loop("n", 0, 2, with_release)}).empty());
  CHECK_THAT(fault_of({kTile, kSlot}, {loop("n", 0, 2, step)}), Contains("1 slots of slot are held at the end, 0"));
  CHECK_THAT(fault_of({kTile, kSlot}, {loop("n", 0, 2, {reserve("slot"), kFillSlot})}),
             Contains("1 slots of slot are filled at the end"));
  CHECK_THAT(fault_of({kTile, kSlot}, step), Contains("1 slots of slot are never released"));
}

TEST_CASE("rule: without a reserve a copy takes the next slot, under a condition too, and readers still hold theirs") {
  const Stmt ahead = when("0 < 1", {kFillSlot});
  CHECK(
      fault_of({kTile, kSlot}, {ahead, loop("n", 0, 2, {acquire("slot"), ahead, kUseSlot, release("slot")})}).empty());
  CHECK_THAT(fault_of({kTile, kSlot}, {ahead, loop("n", 0, 2, {acquire("slot"), ahead, kUseSlot})}),
             Contains("1 slots of slot are held at the end"));
  CHECK_THAT(fault_of({kTile, kSlot}, {ahead, kUseSlot, acquire("slot"), release("slot")}),
             Contains("slot is read, but no slot of it is held"));
}

// ---------------------------------------------------------------- partial tiles

namespace {

/// A fragment of 4 x 4 on two by two threads, with rows beside it.
std::vector<Mem> fragment() {
  const ThreadGrid grid{2, 2, 1, 1};
  Mem s = in_registers("S", {{"i", 4}, {"j", 4}});
  s.layout = grid;
  std::vector<Mem> out{s};
  for (const char* name : {"l", "x", "alpha"}) {
    Mem row = in_registers(name, {{"i", 4}});
    row.layout = RowsOf{grid};
    out.push_back(row);
  }
  return out;
}

std::string partial_fault(const Block& body, std::string_view pass = "close_shares") {
  Program program = one_kernel(fragment(), body);
  program.kernels[0].body.push_back(fill("x", 0));
  program.kernels[0].body.push_back(copy(view("Y[i]", {at("i", 0)}), "x"));
  program.kernels[0].thread_rows = program.kernels[0].thread_columns = 2;
  return build::fault_of(program, pass);
}

const Stmt kSum = row_reduce("x", Reduction::sum, "S");

}  // namespace

TEST_CASE("rule: a share may be accumulated by its own operation and scaled, and nothing else") {
  const Block start{fill("S", 1), fill("l", 0), fill("alpha", 2)};
  const auto with = [&](std::initializer_list<Stmt> more) {
    Block out = start;
    out.insert(out.end(), more);
    return out;
  };
  CHECK(partial_fault(with({loop("n", 0, 2, {kSum, map("l", "l * alpha"), map("l", "l + x")}),
                            all_reduce("l", Reduction::sum), map("S", "S / l")}))
            .empty());
  CHECK_THAT(partial_fault(with({kSum, map("l", "l + x"), map("S", "S / l")})),
             Contains("l is read whole, but each lane"));
  CHECK_THAT(partial_fault(with({kSum, map("l", "max(x, alpha)")})), Contains("x is read whole"));
  CHECK_THAT(partial_fault(with({kSum, map("l", "alpha + x")})), Contains("x is read whole"));
  CHECK_THAT(partial_fault(with({kSum, map("l", "x * x")})), Contains("x is read whole"));
  CHECK_THAT(partial_fault(with({kSum, copy(view("Y[i]", {at("i", 0)}), "x")})), Contains("x is read whole"));
  CHECK_THAT(partial_fault(with({row_reduce("x", Reduction::max, "S"), map("l", "exp(x)")})), Contains("its max"));
  // Before that pass nothing is promised.
  CHECK(partial_fault(with({kSum, map("l", "exp(x)")}), "insert_barriers").empty());
}

TEST_CASE("rule: what is made whole is a share, of the same operation") {
  const Block start{fill("S", 1), fill("alpha", 2)};
  const auto with = [&](std::initializer_list<Stmt> more) {
    Block out = start;
    out.insert(out.end(), more);
    return out;
  };
  CHECK_THAT(partial_fault(with({all_reduce("alpha", Reduction::sum)})), Contains("alpha is no share of a sum"));
  CHECK_THAT(partial_fault(with({kSum, all_reduce("x", Reduction::max)})), Contains("x is no share of a max"));
  CHECK_THAT(partial_fault(with({map("l", "alpha"), row_reduce("l", Reduction::sum, "S", true)})),
             Contains("l is no share of a sum"));
}

TEST_CASE("rule: a tile is not whole on one path and a share on another") {
  CHECK_THAT(partial_fault({fill("S", 1), fill("x", 2.5), when("0 < 1", {kSum}), map("l", "x")}),
             Contains("x is whole on one path and a share on another"));
}

// ---------------------------------------------------------------- syncs, warps, roles

TEST_CASE("rule: warpgroups that run loops of their own never meet") {
  const auto fault = [](Stmt within, const std::string& warpgroup) {
    Program program = one_kernel({kTile}, {statement(Role{"consumer", 2, 0, {kLoad, std::move(within), kStore}})});
    program.kernels[0].warpgroup = warpgroup;
    return build::fault_of(program, "specialize_roles");
  };
  CHECK_THAT(fault(sync(), "w"), Contains("need not come here equally often"));
  CHECK(fault(sync(), "").empty());
  Let own{"own", Expr(4), variable("w")};
  CHECK(fault(statement(own), "w").empty());
  CHECK_THAT(fault(statement(own), ""), Contains("nothing in scope is named w"));
}

TEST_CASE("rule: a sync stands between a write and a read of shared memory") {
  const Mem s = in_shared("s", {{"i", 4}});
  const Stmt write = copy("s", "t");
  const Stmt use = copy("t", "s");
  const auto fault = [&](const Block& body, int threads = 64) {
    Block all{kLoad};
    all.insert(all.end(), body.begin(), body.end());
    return fault_of({kTile, s}, all, "insert_barriers", threads);
  };
  CHECK(fault({write, sync(), use}).empty());
  CHECK_THAT(fault({write, use}), Contains("s was written since the last sync"));
  CHECK_THAT(fault({write, sync(), use, write}), Contains("s was read since the last sync"));
  // A loop meets what its own end leaves.
  CHECK_THAT(fault({loop("n", 0, 2, {write, sync(), use})}), Contains("s was read since the last sync"));
  CHECK(fault({loop("n", 0, 2, {sync(), write, sync(), use})}).empty());
  CHECK_THAT(fault({when("0 < 1", {write}), use}), Contains("s is read") || Contains("s was written"));
  // One thread, or none, meets nobody; before the pass nothing is promised.
  CHECK(fault({write, use}, 1).empty());
  CHECK(fault({write, use}, 0).empty());
  CHECK(fault_of({kTile, s}, {kLoad, write, use}, "stage_tiles", 64).empty());
}

TEST_CASE("rule: a sync stands between a store to a tensor and a load from it") {
  Program program = one_kernel(
      {kTile}, {kLoad, copy(view("W[i]", {at("i", 0)}), "t"), copy("t", view("W[3 - i]", {at("i", 0)})), kStore});
  program.tensors.push_back(tensor(Tensor::Role::scratch, "W", {4}));
  program.kernels[0].thread_rows = 64;
  program.kernels[0].thread_columns = 1;
  CHECK_THAT(fault_of(program, "insert_barriers"), Contains("W was written since the last sync"));
  program.kernels[0].body.insert(program.kernels[0].body.begin() + 2, sync());
  CHECK(fault_of(program, "insert_barriers").empty());
}

TEST_CASE("rule: a slot that one thread fills is read after a sync, and filled again after one") {
  const auto fault = [&](const Block& body) { return fault_of({kTile, kSlot}, body, "insert_barriers", 64); };
  const Block prologue{reserve("slot"), kFillSlot};
  const auto after = [&](const Block& body) {
    Block out = prologue;
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), {acquire("slot"), sync(), kUseSlot, release("slot")});
    return out;
  };
  CHECK(
      fault(after({loop("n", 0, 3, {acquire("slot"), sync(), reserve("slot"), kFillSlot, kUseSlot, release("slot")})}))
          .empty());
  CHECK_THAT(fault(after({loop("n", 0, 3, {acquire("slot"), reserve("slot"), kFillSlot, kUseSlot, release("slot")})})),
             Contains("slot was written since the last sync"));
  CHECK_THAT(
      fault(after({loop("n", 0, 3, {reserve("slot"), kFillSlot, acquire("slot"), sync(), kUseSlot, release("slot")})})),
      Contains("slots to fill) was read since the last sync"));
}

TEST_CASE("rule: under a condition of a warp stands only what a warp can do alone") {
  Stmt branch = when("0 < 1", {sync()});
  CHECK(fault_of({}, {branch}).empty());
  std::get<If>(branch.node).uniform = If::Uniform::warp;
  CHECK_THAT(fault_of({}, {branch}), Contains("stands under a condition of a warp"));
  std::get<If>(branch.node).body = {loop("n", 0, 2, {sync()})};
  CHECK_THAT(fault_of({}, {branch}), Contains("stands under a condition of a warp"));
}

TEST_CASE("rule: roles share no registers") {
  const auto role = [](const char* name, Block body) {
    Role out;
    out.name = name;
    out.body = std::move(body);
    return statement(out);
  };
  CHECK(fault_of({kTile}, {role("a", {kLoad, kStore}), role("b", {})}).empty());
  CHECK_THAT(fault_of({kTile}, {role("a", {kLoad}), role("b", {kLoad})}), Contains("t is in the registers of role a"));
}

TEST_CASE("rule: takes and passes alternate on every path of a role of several warpgroups") {
  const Stmt take = statement(Turn{Turn::Do::take}), pass = statement(Turn{Turn::Do::pass});
  const auto fault = [&](Block body, int count = 2) {
    Role role;
    role.name = "consumer";
    role.count = count;
    role.body = std::move(body);
    return fault_of({in_shared("K", {{"i", 4}}), in_shared("V", {{"i", 4}})}, {statement(role)});
  };
  CHECK(fault({take, pass, loop("n", 0, "4", {take, pass}), take, pass}).empty());
  CHECK(fault({take, loop("n", 0, "4", {pass, take}), pass}).empty());
  CHECK_THAT(fault({take, take, pass}), Contains("the turn is held as it is"));
  CHECK_THAT(fault({pass}), Contains("no turn is held"));
  CHECK_THAT(fault({take}), Contains("a turn is held at the end"));
  CHECK_THAT(fault({loop("n", 0, "4", {take}), pass}), Contains("a turn is held at one end of the body only"));
  CHECK_THAT(fault({take, when("0 < 1", {pass})}), Contains("a turn is held on one path only"));
  CHECK(fault({when("0 < 1", {take, pass})}).empty());
  Stmt of_warp = when("0 < 1", {take, pass});
  std::get<If>(of_warp.node).uniform = If::Uniform::warp;
  CHECK_THAT(fault({of_warp}), Contains("stands under a condition of a warp"));
  CHECK_THAT(fault({take, pass}, 1), Contains("turns of less than two warpgroups"));
  CHECK_THAT(fault_of({}, {take, pass}), Contains("turns of less than two warpgroups"));
  // The others release behind their own turn, which comes after this one.
  CHECK(fault({acquire("K"), take, release("K"), acquire("V"), pass, release("V")}).empty());
  CHECK_THAT(fault({acquire("K"), take, release("K"), acquire("K"), pass, release("K")}),
             Contains("K has been released in the same turn: this may never return"));
}

TEST_CASE("rule: where there are turns, products by wgmma stand in them") {
  const Stmt take = statement(Turn{Turn::Do::take}), pass = statement(Turn{Turn::Do::pass});
  Stmt product = mma("S", "A", "B");
  std::get<Mma>(product.node).by = Family::wgmma;
  const std::vector<Mem> mems{in_registers("S", {{"i", 4}, {"j", 4}}), in_shared("A", {{"i", 4}, {"d", 4}}),
                              in_shared("B", {{"j", 4}, {"d", 4}})};
  const auto fault = [&](Block body) {
    body.insert(body.begin(), {fill("A", 0), fill("B", 0)});
    Role role;
    role.name = "consumer";
    role.count = 2;
    role.body = std::move(body);
    return fault_of(mems, {statement(role)});
  };
  CHECK(fault({take, product, pass}).empty());
  CHECK_THAT(fault({take, pass, product}), Contains("no turn is held"));
  CHECK(fault({product}).empty());
}

}  // namespace astatide::tile
