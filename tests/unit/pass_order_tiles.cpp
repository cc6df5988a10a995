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

}  // namespace astatide::testing
