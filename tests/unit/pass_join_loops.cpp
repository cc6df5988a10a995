#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;
using tile::Block;

std::string joined_text(Block body, tile::Family family = tile::Family::fma) {
  tile::Program program = one_kernel(
      {in_registers("S", {{"i", 4}, {"j", 4}}), in_registers("T", {{"i", 4}, {"j", 4}}), in_registers("m", {{"i", 4}}),
       in_shared("Q", {{"i", 4}, {"d", 4}}), in_shared("K", {{"j", 4}, {"d", 4}})},
      std::move(body));
  program.kernels[0].body = tile::transform_blocks(program.kernels[0].body, [&](Block block) {
    for (tile::Stmt& stmt : block)
      if (auto* product = std::get_if<tile::Mma>(&stmt.node)) product->by = family;
    return block;
  });
  return body_after("join_loops", program);
}

tile::Stmt scaled() { return map("S", "S * 2"); }
tile::Stmt masked() { return map_where("S", "S * 2", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "j_o*4")}); }
Block body_with(const tile::Stmt& scores) { return {mma("S", "Q", "K"), scores, row_reduce("m", Reduction::max, "S")}; }

}  // namespace

TEST_CASE("loops that differ in a test become one, the map that tests under its loop's condition") {
  CHECK(joined_text({loop("j_o", 0, "full", body_with(scaled())), loop("j_o", "full", "end", body_with(masked()))}) ==
        R"(for j_o in 0 .. end serial
  mma S = Q * K by fma
  if j_o < full uniform block
    map S = S * 2
  if full <= j_o uniform block
    map S = S * 2 where j <= i absent -1 at i = i_o*4, j = j_o*4
  row_reduce m = max S
)");
}

TEST_CASE("the first and the last of three loops are of one kind") {
  CHECK(joined_text({loop("j_o", "from", "a", body_with(masked())), loop("j_o", "a", "b", body_with(scaled())),
                     loop("j_o", "b", "end", body_with(masked()))})
            .find("  if j_o < a or b <= j_o uniform block\n    map S = S * 2 where") != std::string::npos);
}

TEST_CASE("what only masks a tile stands under the condition of the loops that have it") {
  Block with = body_with(scaled());
  with.insert(with.begin() + 2, map_where("S", "S", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "j_o*4")}));
  CHECK(joined_text({loop("j_o", 0, "full", body_with(scaled())), loop("j_o", "full", "end", with)}) ==
        R"(for j_o in 0 .. end serial
  mma S = Q * K by fma
  map S = S * 2
  if full <= j_o uniform block
    map S = S where j <= i absent -1 at i = i_o*4, j = j_o*4
  row_reduce m = max S
)");
}

TEST_CASE("a copy tests what any of the loops tests") {
  const auto with_copy = [](const tile::Stmt& copied) { return Block{copied, mma("S", "Q", "K")}; };
  const auto limited = copy("K", view("X[j,d]", {at("j", "j_o*4", "n"), at("d", 0)}));
  const auto free = copy("K", view("X[j,d]", {at("j", "j_o*4"), at("d", 0)}));
  CHECK(joined_text({loop("j_o", 0, "full", with_copy(free)), loop("j_o", "full", "end", with_copy(limited))})
            .find("for j_o in 0 .. end serial\n  copy K <- X[j,d] at j = j_o*4 < n, d = 0") == 0);
}

TEST_CASE("loops stay apart on tensor cores, where they don't meet, and where they do different things") {
  const Block apart = {loop("j_o", 0, "full", body_with(scaled())), loop("j_o", "full", "end", body_with(masked()))};
  CHECK(joined_text(apart, tile::Family::wgmma).find("for j_o in full") != std::string::npos);
  CHECK(joined_text({loop("j_o", 0, "a", body_with(scaled())), loop("j_o", "b", "end", body_with(masked()))})
            .find("for j_o in b") != std::string::npos);
  CHECK(joined_text({loop("j_o", 0, "a", body_with(scaled())), loop("j_o", "a", "end", body_with(map("S", "S * 3")))})
            .find("for j_o in a") != std::string::npos);
  // A tile that was not there before would be written on one of two paths: the general map does for both.
  CHECK(joined_text({loop("j_o", 0, "a", body_with(map("T", "S"))),
                     loop("j_o", "a", "end",
                          body_with(map_where("T", "S", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "j_o*4")})))})
            .find("if ") == std::string::npos);
  // Threads share W: the general map does for both here, too.
  CHECK(joined_text({loop("j_o", 0, "a", body_with(map("W", "W * 2"))),
                     loop("j_o", "a", "end",
                          body_with(map_where("W", "W * 2", {"j <= i"}, -1, {at("i", "i_o*4"), at("j", "j_o*4")})))})
            .find("  map W = W * 2 where") != std::string::npos);
}

}  // namespace astatide::testing
