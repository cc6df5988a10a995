#include <catch2/catch.hpp>

#include "compiler/tile/cluster.h"
#include "tests/support/tile_fault.h"

// The rules about clusters: their blocks make the same copies to all of them, equally often.

namespace astatide::tile {
namespace {

using namespace build;
using Catch::Contains;

/// Blocks n = 0, 1, .. in clusters of two; each copies 32 rows of X at a time.
Program clustered(Block body) {
  Program program =
      one_kernel({in_shared("slot", {{"i", 32}, {"d", 8}}, 2), in_registers("result", {{"i", 4}})}, std::move(body));
  program.extents = {"N"};
  program.tensors[0] = tensor(Tensor::Role::input, "X", {"N", 8});
  Kernel& kernel = program.kernels[0];
  kernel.tiles = {{"n", Index("N").value}, {"h", Index(3).value}};
  kernel.cluster = Cluster{"n", 2, {}};
  kernel.producers = 1;
  kernel.body.push_back(fill("result", 0));
  kernel.body.push_back(copy(view("Y[i]", {at("i", 0)}), "result"));
  return program;
}

Stmt load(const char* row, bool multicast = true) {
  Copy out{"slot", view("X[i, d]", {at("i", row), at("d", 0)}), Via::tma, "", 0, multicast};
  return statement(out);
}

Block slot_of(Stmt fill_it) { return {reserve("slot"), std::move(fill_it), acquire("slot"), release("slot")}; }

}  // namespace

TEST_CASE("rule: a cluster is along the first tile axis, and copies for several blocks are of its producers") {
  Program program = clustered(slot_of(load("h*32")));
  CHECK(fault_of(program).empty());
  CHECK(print(program.kernels[0]).find("kernel main tiles(n: N, h: 3) cluster n 2 producers 1") == 0);
  CHECK(print(program.kernels[0]).find(" via tma multicast\n") != std::string::npos);
  Program other = program;
  other.kernels[0].cluster->var = "h";
  CHECK_THAT(fault_of(other), Contains("the cluster is along h, which is not the first tile axis"));
  other = program;
  other.kernels[0].cluster->blocks = 1;
  CHECK_THAT(fault_of(other), Contains("a cluster of 1 blocks"));
  other = program;
  other.kernels[0].producers = 0;
  CHECK_THAT(fault_of(other), Contains("a cluster without a producer"));
  other = program;
  other.kernels[0].cluster.reset();
  CHECK_THAT(fault_of(other), Contains("there is no cluster"));
  other = program;
  other.kernels[0].mems[0].dims[0].extent = 24;
  CHECK_THAT(fault_of(other), Contains("the rows are no 2 shares of whole swizzles"));
}

TEST_CASE("rule: the blocks of a cluster copy the same tile, each as often as the others") {
  CHECK(fault_of(clustered(slot_of(load("n/2*32")))).empty());
  CHECK_THAT(fault_of(clustered(slot_of(load("n*32")))), Contains("the blocks of a cluster copy different tiles"));
  const auto in_loop = [](const char* end, const char* row) {
    return clustered({let("last", end), loop("m", 0, "last", slot_of(load(row)))});
  };
  CHECK(fault_of(in_loop("n/2*2 + 1", "m*32")).empty());
  CHECK_THAT(fault_of(in_loop("n + 1", "m*32")), Contains("the blocks of a cluster copy different tiles"));
  CHECK_THAT(fault_of(in_loop("n + 1", "h*32")), Contains("the blocks of a cluster run it differently often"));
  CHECK_THAT(fault_of(clustered({when("n < 3", slot_of(load("h*32")))})),
             Contains("the blocks of a cluster run it differently often"));
}

TEST_CASE("rule: a slot is filled by one block, or by all of the cluster") {
  CHECK(fault_of(clustered(slot_of(load("n*32", false)))).empty());
  Block both = slot_of(load("h*32"));
  for (Stmt& stmt : slot_of(load("n*32", false))) both.push_back(stmt);
  CHECK_THAT(fault_of(clustered(both)),
             Contains("the slots of slot are filled by one block and by all of the cluster"));
}

TEST_CASE("what follows the tile of a block differs within a cluster, what follows the cluster does not") {
  const Program program = clustered({let("end", "n/2 + h"), let("own", "end + n"), vote("go", "result > 0")});
  const AlikeInCluster alike(program.kernels[0]);
  CHECK(alike.holds(Index("n/2*64 + N").value));
  CHECK(alike.holds(Index("end").value));
  CHECK_FALSE(alike.holds(Index("n").value));
  CHECK_FALSE(alike.holds(Index("n/4").value));
  CHECK_FALSE(alike.holds(Index("own/2").value));
  CHECK_FALSE(alike.holds(variable("go")));
  const Bounds tiles = tiles_of(*program.kernels[0].cluster);
  CHECK(evaluate_integer(tiles.low, {{"n", 5}}) == 4);
  CHECK(evaluate_integer(tiles.high, {{"n", 4}}) == 5);
}

}  // namespace astatide::tile
