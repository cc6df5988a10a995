#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

/// Whether tiles along i_o are taken downwards where a loop runs from `begin` to `end`.
bool is_descending(const char* begin, const char* end, std::optional<TileOrder> order = TileOrder::longest_first) {
  tile::Program program = one_kernel(
      {in_registers("m", {{"i", 4}})},
      {let("last", end), loop("j_o", begin, "cut", {fill("m", 0)}), loop("j_o", "cut", "last", {fill("m", 1)})});
  tile::Kernel& kernel = program.kernels[0];
  kernel.tiles = {{"i_o", Index("n").value}, {"h", Index("H").value}};
  kernel.thread_rows = 8, kernel.thread_columns = 4;
  kernel.persistent = order;
  for (const Pass& pass : pass_table()) {
    if (pass.name != std::string_view("order_tiles")) continue;
    const tile::Program ordered = pass.run(program, *find_target("sm_90a"));
    CHECK(ordered.kernels[0].persistent == (order ? std::optional(TileOrder::linear) : std::nullopt));
    CHECK_FALSE(ordered.kernels[0].tiles[1].descending);
    return ordered.kernels[0].tiles[0].descending;
  }
  throw InternalError("no pass order_tiles");
}

}  // namespace

TEST_CASE("tiles are taken downwards along the axis with which their loops grow") {
  CHECK(is_descending("0", "max(0, min((n + 63)/64, (n + i_o*64 + 127)/64))"));
  CHECK_FALSE(is_descending("i_o", "n"));                       // they shrink
  CHECK_FALSE(is_descending("0", "n"));                         // all alike
  CHECK_FALSE(is_descending("max(0, i_o*64 - 8)", "i_o + 9"));  // a window: neither
  CHECK_FALSE(is_descending("0", "i_o + 1", TileOrder::linear));
  CHECK(is_descending("0", "i_o + 1", std::nullopt));  // blocks of a grid
}

TEST_CASE(
    "the axis that is walked downwards comes first, and the tiles of the others go in groups that fit the L2 cache") {
  tile::Program program = one_kernel(
      {in_registers("m", {{"i", 4}}), in_registers("S", {{"i", 4}, {"j", 8}})},
      {loop("j_o", "0", "i_o + 1",
            {mma("S", view("Q[h,i,d]", {at("i", 0), at("d", 0)}), view("K[h,j,d]", {at("j", 0), at("d", 0)}))})});
  program.extents = {"H", "n", "Sk"};
  for (const char* name : {"Q", "K"})
    program.tensors.push_back({name, ScalarType::bf16, {variable("H"), variable("Sk"), Expr(128)}, {}});
  tile::Kernel& kernel = program.kernels[0];
  kernel.tiles = {{"h", Index("H").value}, {"i_o", Index("n").value}};
  kernel.persistent = TileOrder::longest_first;
  for (const auto& [name, loop] : {std::pair("Q", "i_o"), {"K", "j_o"}}) {
    tile::Staging& staging = kernel.stagings.emplace_back();
    staging.tensor = name;
    staging.at = loop;
  }
  for (const Pass& pass : pass_table()) {
    if (pass.name != std::string_view("order_tiles")) continue;
    const tile::Program ordered = pass.run(program, *find_target("sm_90a"));
    // Of 50 MiB two to five eighths, in elements of 2 bytes, and between these two tiles a multiprocessor.
    CHECK(tile::print(ordered.kernels[0])
              .find("tiles(i_o: n descending, h: H) groups "
                    "max(min(16384000/max(Sk, 1)/128, max(6553600/max(Sk, 1)/128, 263/max(n, 1)+1)), 1) "
                    "persistent linear") != std::string::npos);
  }
}

namespace {

/// The groups of a kernel over items b and heads h whose keys are `K`, of these dimensions and this view.
std::string groups_of(const std::vector<Expr>& dims, const char* keys, const char* limit) {
  tile::Program program =
      one_kernel({in_registers("m", {{"i", 4}}), in_registers("S", {{"i", 4}, {"j", 8}})},
                 {loop("j_o", "0", "i_o + 1",
                       {mma("S", view("Q[b,h,i,d]", {at("i", 0), at("d", 0)}),
                            view(keys, {{"j", Index("j_o*8").value, Index(limit).value}, at("d", 0)}))})});
  program.extents = {"B", "H", "n", "Sk", "T"};
  program.tensors.push_back({"Q", ScalarType::bf16, {variable("B"), variable("H"), variable("n"), Expr(128)}, {}});
  program.tensors.push_back({"K", ScalarType::bf16, dims, {}});
  for (const char* name : {"offset", "page"})
    program.tensors.push_back({name, ScalarType::i32, {variable("B"), variable("n")}, {}});
  tile::Kernel& kernel = program.kernels[0];
  kernel.tiles = {{"i_o", Index("n").value}, {"h", Index("H").value}, {"b", Index("B").value}};
  kernel.persistent = TileOrder::longest_first;
  tile::Staging& staging = kernel.stagings.emplace_back();
  staging.tensor = "K";
  staging.at = "j_o";
  for (const Pass& pass : pass_table()) {
    if (pass.name != std::string_view("order_tiles")) continue;
    const std::string text = tile::print(pass.run(program, *find_target("sm_90a")).kernels[0]);
    const std::size_t begin = text.find(" groups ") + 8;
    return text.substr(begin, text.find(" persistent") - begin);
  }
  throw InternalError("no pass order_tiles");
}

}  // namespace

TEST_CASE("groups count the rows of an item where rows are packed or lie in pages") {
  const Expr heads = variable("H"), all = variable("T");
  const std::string dense = groups_of({variable("B"), heads, variable("Sk"), Expr(128)}, "K[b,h,j,d]", "Sk");
  CHECK(dense == "max(min(16384000/max(Sk, 1)/128, max(6553600/max(Sk, 1)/128, 263/max(n, 1)+1)), 1)");
  CHECK(groups_of({all, heads, Expr(128)}, "K[offset[b,0] + j,h,d]", "min(Sk, offset[b,1] - offset[b,0])") == dense);
  CHECK(groups_of({all, heads, Expr(64), Expr(128)}, "K[page[b,j/64],h,j%64,d]", "min(Sk, offset[b,0])") == dense);
}

}  // namespace astatide::testing
