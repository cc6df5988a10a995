#include <catch2/catch.hpp>

#include "tests/support/pass_text.h"

namespace astatide::testing {
namespace {

using namespace tile::build;

std::string with_split(tile::Block body, tile::Family family = tile::Family::mma_sync) {
  tile::Stmt product = mma_add("acc", "P", "V");
  std::get<tile::Mma>(product.node).by = family;
  body.insert(body.begin(), product);
  return body_after("split_absorb",
                    one_kernel({in_registers("acc", {{"i", 4}, {"e", 8}}), in_registers("out", {{"i", 4}, {"e", 8}}),
                                in_registers("r", {{"i", 4}}), in_registers("P", {{"i", 4}, {"j", 8}}),
                                in_shared("V", {{"j", 8}, {"e", 8}})},
                               std::move(body)));
}

tile::Stmt absorbs(const char* dst) {
  return {tile::Map{dst, std::nullopt, absorb(variable("acc"), variable("r")), {}, {}, {}}};
}

}  // namespace

TEST_CASE("a tile is scaled by the numbers of its rows as a plain product where all of a warp's are finite") {
  CHECK(with_split({absorbs("out")}) == R"(mma acc += P * V by mma_sync
vote infinite = any not abs(r) < inf
if not infinite uniform warp
  map acc = acc * r
if infinite uniform warp cold
  map acc = absorb(acc, r)
map out = acc
)");
}

TEST_CASE("a tile that is read again, and one on FMA units, is scaled as it was") {
  CHECK(with_split({absorbs("out"), map("out", "acc")}) == R"(mma acc += P * V by mma_sync
map out = absorb(acc, r)
map out = acc
)");
  CHECK(with_split({absorbs("out")}, tile::Family::fma) == R"(mma acc += P * V by fma
map out = absorb(acc, r)
)");
}

}  // namespace astatide::testing
