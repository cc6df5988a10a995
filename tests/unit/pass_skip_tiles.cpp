#include <catch2/catch.hpp>

#include "compiler/passes/skip_tiles.h"
#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

/// Rows of items with lengths of their own, each stored to tensors with the limits given.
tile::Program items(const std::vector<std::string>& limits) {
  tile::Block body{loop("j_o", 0, "select(i_o*4 < len[b], M, 0)", {fill("t", 1)})};
  for (const std::string& limit : limits) body.push_back(copy(view("Y[i]", {at("i", "i_o*4", limit)}), "t"));
  tile::Program out = one_kernel({in_registers("t", {{"i", 4}})}, std::move(body));
  out.extents = {"B", "N", "M"};
  out.kernels[0].tiles = {{"i_o", parse_expr("(N+3)/4", {}, true)}, {"b", parse_expr("B", {}, true)}};
  out.tensors.push_back(tensor(tile::Tensor::Role::input, "len", {"B"}, ScalarType::i32));
  return out;
}

tile::Kernel skipped(const tile::Program& in, const char* target = "sm_80") {
  return skip_tiles(in, *find_target(target)).kernels.at(0);
}

}  // namespace

TEST_CASE("a tile behind all that its kernel stores is left out, and nothing inside asks again") {
  const tile::Kernel kernel = skipped(items({"min(N, len[b])", "len[b]"}));
  REQUIRE(kernel.exists);
  CHECK(to_string(*kernel.exists) == "i_o * 4 < len[b]");
  CHECK(std::get<tile::For>(kernel.body[0].node).end == variable("M"));
  CHECK(tile::print(kernel).find(" where i_o*4 < len[b]") != std::string::npos);
}

TEST_CASE("a tile that stores anything stays") {
  CHECK_FALSE(skipped(items({"len[b]", "N"})).exists);
  CHECK_FALSE(skipped(items({"N"})).exists);  // the grid itself ends there
  CHECK_FALSE(skipped(items({})).exists);
}

TEST_CASE("blocks of a cluster come together, and a CPU's tiles cost nothing where they have no work") {
  tile::Program clusters = items({"len[b]"});
  clusters.kernels[0].cluster = tile::Cluster{"i_o", 2, {}};
  CHECK_FALSE(skipped(clusters).exists);
  CHECK_FALSE(skipped(items({"len[b]"}), "cpu").exists);
}

}  // namespace astatide::testing
