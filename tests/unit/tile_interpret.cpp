#include "compiler/tile/interpret.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/tile_streaming.h"

namespace astatide::tile {
namespace {

using namespace build;
using Catch::Contains;

const double kLog2 = std::log(2.0);
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Arguments worked_example() {
  Arguments arguments;
  arguments.extents = {{"B", 1}, {"Sq", 1}, {"Sk", 4}};
  arguments.inputs["Q"] = {{1, 1, 1}, {1}};
  arguments.inputs["K"] = {{1, 4, 1}, {0, 0, kLog2, kLog2}};
  arguments.inputs["V"] = {{1, 4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}};
  return arguments;
}

std::vector<double> run_small(const Program& program) {
  Arguments arguments;
  arguments.inputs["X"] = {{4}, {1, 2, 3, 4}};
  return interpret(program, arguments).at("Y").values;
}

}  // namespace

TEST_CASE(
    "a row of scores 0, 0, ln 2, ln 2 in two tiles of two has maximum ln 2, sum 3 and weights 1/6, 1/6, 1/3, 1/3") {
  const auto outputs = interpret(streaming(), worked_example());
  CHECK(outputs.at("M").values[0] == Approx(kLog2).epsilon(1e-15));
  CHECK(outputs.at("L").values[0] == Approx(3).epsilon(1e-15));
  const std::vector<double> expected{1.0 / 6, 1.0 / 6, 1.0 / 3, 1.0 / 3};
  for (int e = 0; e < 4; ++e) CHECK(outputs.at("O").values[e] == Approx(expected[e]).epsilon(1e-15));
}

TEST_CASE("without moving the earlier sum the worked example gives 4, not 3") {
  Program program = streaming();
  for (Stmt& stmt : program.kernels[0].body)
    if (auto* chain = std::get_if<For>(&stmt.node))
      for (Stmt& inner : chain->body)
        if (auto* advance = std::get_if<Advance>(&inner.node)) advance->moving.clear();
  CHECK(interpret(program, worked_example()).at("L").values[0] == Approx(4));
}

TEST_CASE("a row with no element at all leaves the units") {
  Arguments arguments = worked_example();
  arguments.extents["Sk"] = 0;
  arguments.inputs["K"] = {{1, 0, 1}, {}};
  arguments.inputs["V"] = {{1, 0, 4}, {}};
  const auto outputs = interpret(streaming(), arguments);
  CHECK(outputs.at("M").values[0] == kMinusInfinity);
  CHECK(outputs.at("L").values[0] == 0);
  CHECK(outputs.at("O").values == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("a kernel over no tiles leaves an empty output") {
  Arguments arguments = worked_example();
  arguments.extents["Sq"] = 0;
  arguments.inputs["Q"] = {{1, 0, 1}, {}};
  CHECK(interpret(streaming(), arguments).at("O").values.empty());
}

TEST_CASE("a tile that is read before it is written is an error that names the statement") {
  const Program program = one_kernel({kTile}, {kStore});
  CHECK_THROWS_WITH(run_small(program), Contains("t is read before it is written") && Contains("copy Y[i]"));
}

TEST_CASE("an index out of a tensor's shape is an error unless a limit guards it") {
  const Mem wide = in_registers("t", {{"i", 5}});
  CHECK_THROWS_WITH(run_small(one_kernel({wide}, {kLoad})), Contains("index 4") && Contains("of X, which has 4"));
  const Stmt guarded = copy("t", view("X[i]", {at("i", 0, 4)}, -1));
  const Stmt store = copy(view("Y[3 - i]", {at("i", 1, 5)}), "t");
  CHECK_THROWS_WITH(run_small(one_kernel({wide}, {guarded, store})), Contains("index -1"));
  CHECK(run_small(one_kernel({wide}, {guarded, copy(view("Y[4 - i]", {at("i", 1, 5)}), "t")})) ==
        std::vector<double>{4, 3, 2, 1});
}

TEST_CASE("an element beyond a limit is absent when loaded and not stored") {
  const Stmt load = copy("t", view("X[i]", {at("i", 2, 4)}, -7));
  CHECK(run_small(one_kernel({kTile}, {load, kStore})) == std::vector<double>{3, 4, -7, -7});
  const std::vector<double> out = run_small(one_kernel({kTile}, {kLoad, copy(view("Y[i]", {at("i", 0, 2)}), "t")}));
  CHECK(out[1] == 2);
  CHECK(std::isnan(out[2]));
}

TEST_CASE("a map gives the absent value where a predicate is false or a coordinate is beyond its limit") {
  const Stmt masked = map_where("t", "t * 10", {"i != 3"}, -1, {at("i", 2, 5)});
  CHECK(run_small(one_kernel({kTile}, {kLoad, masked, kStore})) == std::vector<double>{10, -1, 30, -1});
}

TEST_CASE("a map reads a tensor only where its coordinates are within their limits") {
  const Stmt shifted = map("t", "t + X[i]", {at("i", 2, 4)});
  CHECK(run_small(one_kernel({kTile}, {kLoad, shifted, kStore})) == std::vector<double>{4, 6, 3, 4});
  const Stmt guarded = map("t", "select(i > 0, X[i - 1], 9)", {at("i", 0)});
  CHECK(run_small(one_kernel({kTile}, {guarded, kStore})) == std::vector<double>{9, 1, 2, 3});
}

TEST_CASE("a map of some columns leaves the others") {
  Stmt part = map("t", "t + 100");
  std::get<Map>(part.node).columns = Columns{1, 3};
  CHECK(run_small(one_kernel({kTile}, {kLoad, part, kStore})) == std::vector<double>{1, 102, 103, 4});
}

TEST_CASE("a reduction with accumulate includes the old value") {
  const Mem sum = in_registers("s", {});
  const Stmt spread = map("t", "s");
  CHECK(run_small(one_kernel({kTile, sum}, {kLoad, row_reduce("s", Reduction::sum, "t"), spread, kStore}))[0] == 10);
  CHECK(run_small(one_kernel(
            {kTile, sum}, {kLoad, fill("s", 5), row_reduce("s", Reduction::sum, "t", true), spread, kStore}))[0] == 15);
  CHECK(run_small(one_kernel(
            {kTile, sum}, {kLoad, fill("s", 7), row_reduce("s", Reduction::max, "t", true), spread, kStore}))[0] == 7);
}

TEST_CASE("loops bind their variable upward, downward and once") {
  const Stmt step = map("t", "t * 10 + n");
  Stmt down = loop("n", 1, 4, {step});
  std::get<For>(down.node).descending = true;
  CHECK(run_small(one_kernel({kTile}, {fill("t", 0), loop("n", 1, 4, {step}), kStore}))[0] == 123);
  CHECK(run_small(one_kernel({kTile}, {fill("t", 0), down, kStore}))[0] == 321);
  CHECK(run_small(one_kernel({kTile}, {fill("t", 0), once("n", 7, {step}), kStore}))[0] == 7);
}

TEST_CASE("a vote holds where any element does, and an if reads it") {
  const Stmt add = map("t", "t + 100");
  const auto first = [&](const char* condition) {
    return run_small(one_kernel({kTile}, {kLoad, vote("any", condition), when("any", {add}), kStore}))[0];
  };
  CHECK(first("t > 3") == 101);
  CHECK(first("t > 4") == 1);
}

TEST_CASE("a copy between a tile and a strip goes to the origin that it names") {
  const Mem half = in_registers("h", {{"i", 2}});
  const Mem row = in_shared("row", {{"i", 4}});
  const Block body{
      loop("n", 0, 2, {copy("h", view("X[i]", {at("i", "n*2")})), copy(strip("row", {at("i", "2 - n*2")}), "h")}),
      loop("n", 0, 2, {copy("h", strip("row", {at("i", "n*2", 3)}, -1)), copy(view("Y[i]", {at("i", "n*2")}), "h")})};
  CHECK(run_small(one_kernel({half, row}, body)) == std::vector<double>{3, 4, 1, -1});
}

TEST_CASE("a product broadcasts neither operand and sums over the axis that both have") {
  Program program = one_kernel(
      {in_registers("a", {{"i", 2}, {"k", 2}}), in_registers("b", {{"k", 2}, {"j", 2}}),
       in_registers("c", {{"i", 2}, {"j", 2}})},
      {copy("a", view("X[2*i + k]", {at("i", 0), at("k", 0)})), copy("b", view("X[2*k + j]", {at("k", 0), at("j", 0)})),
       mma("c", "a", "b"), copy(view("Y[2*i + j]", {at("i", 0), at("j", 0)}), "c")});
  CHECK(run_small(program) == std::vector<double>{7, 10, 15, 22});
}

TEST_CASE("slots of a ring are filled and read in order") {
  const Mem slot = in_shared("slot", {{"i", 2}}, 2);
  const auto load = [](int n) { return copy("slot", view("X[i]", {at("i", n * 2)})); };
  const auto store = [](int n) { return copy(view("Y[i]", {at("i", n * 2)}), "slot"); };
  const Block in_order{reserve("slot"), load(0),         reserve("slot"), load(1),  acquire("slot"),
                       store(1),        release("slot"), acquire("slot"), store(0), release("slot")};
  CHECK(run_small(one_kernel({slot}, in_order)) == std::vector<double>{3, 4, 1, 2});
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {reserve("slot"), load(0), store(0)})),
                    Contains("no slot of it is held"));
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {load(0), reserve("slot")})), Contains("no slot of it is reserved"));
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {reserve("slot"), reserve("slot"), reserve("slot")})),
                    Contains("all 2 slots of slot are taken"));
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {acquire("slot")})), Contains("no slot of slot is full"));
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {reserve("slot"), load(0)})), Contains("1 slots of slot are never"));
}

TEST_CASE("what a slot holds beyond a limit is 0 once it is acquired") {
  const Mem slot = in_shared("slot", {{"i", 2}}, 2);
  const auto load = [](int n) { return copy("slot", view("X[i]", {at("i", n * 2)})); };
  const Stmt store = copy(view("Y[i]", {at("i", "n*2")}), "slot");
  const Stmt cleared = statement(Acquire{"slot", {at("i", "n*2", 3)}});
  CHECK(run_small(one_kernel({slot}, {reserve("slot"), load(0), reserve("slot"), load(1),
                                      loop("n", 0, 2, {cleared, store, release("slot")})})) ==
        std::vector<double>{1, 2, 3, 0});
  CHECK(tile::print(cleared) == "acquire slot at i = n*2 < 3\n");
}

TEST_CASE("without a reserve each copy takes the next slot of a ring") {
  const Mem slot = in_shared("slot", {{"i", 2}}, 2);
  const Stmt store = copy(view("Y[i]", {at("i", "n * 2")}), "slot");
  const auto load = [](const char* origin) { return copy("slot", view("X[i]", {at("i", origin)})); };
  const Stmt ahead = when("n + 1 < 2", {load("n * 2 + 2")});
  const auto program = [&](const Stmt& more) {
    return one_kernel({slot}, {load("0"), loop("n", 0, 2, {acquire("slot"), more, store, release("slot")})});
  };
  CHECK(run_small(program(ahead)) == std::vector<double>{1, 2, 3, 4});
  CHECK_THROWS_WITH(run_small(program(let("unused", 0))), Contains("no slot of slot is full"));
  CHECK_THROWS_WITH(run_small(one_kernel({slot}, {load("0"), load("0"), load("0"), acquire("slot"), release("slot")})),
                    Contains("all 2 slots of slot are taken"));
}

TEST_CASE("a tile loses its value when one that shares its storage is written") {
  Mem other = in_registers("u", {{"i", 4}});
  other.alias = "t";
  CHECK(run_small(one_kernel({kTile, other}, {kLoad, map("u", "t + 1"), map("t", "u + 1"), kStore})) ==
        std::vector<double>{3, 4, 5, 6});
  CHECK_THROWS_WITH(run_small(one_kernel({kTile, other}, {kLoad, map("u", "t + 1"), kStore})),
                    Contains("t is read before it is written"));
}

TEST_CASE("with rounding on, what is stored has the precision of its type") {
  Mem narrow = in_registers("t", {{"i", 4}}, ScalarType::bf16);
  const Program program = one_kernel({narrow}, {kLoad, map("t", "t / 3"), kStore});
  Arguments arguments;
  arguments.inputs["X"] = {{4}, {1, 2, 3, 4}};
  CHECK(interpret(program, arguments).at("Y").values[0] == 1.0 / 3);
  CHECK(interpret(program, arguments, {true}).at("Y").values[0] == 0.333984375);
}

TEST_CASE("a role is refused with the reason") {
  Role role;
  role.name = "producer";
  CHECK_THROWS_WITH(run_small(one_kernel({}, {statement(role)})), Contains("roles run at the same time"));
}

}  // namespace astatide::tile
