#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "compiler/tile/parameters.h"
#include "tests/support/tile_streaming.h"

namespace astatide::tile {
namespace {

using namespace build;
using Names = std::set<std::string>;

Names reads(const Stmt& stmt) {
  const std::vector<std::string> names = effects_of(stmt).reads;
  return {names.begin(), names.end()};
}
Names writes(const Stmt& stmt) {
  const std::vector<std::string> names = effects_of(stmt).writes;
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("a view counts as its tensor, and its coordinates are its own") {
  const Stmt load = copy("K_s", view("K[b, j, d]", {at("j", "j_o*64", "Sk"), at("d", 0)}));
  CHECK(reads(load) == Names{"K", "b", "j_o", "Sk"});
  CHECK(writes(load) == Names{"K_s"});
  const Stmt store = copy(view("O[i]", {at("i", "i_o*64")}), "acc");
  CHECK(reads(store) == Names{"acc", "i_o"});
  CHECK(writes(store) == Names{"O"});
}

TEST_CASE("what accumulates is read and written") {
  CHECK(reads(mma("S", "a", "b")) == Names{"a", "b"});
  CHECK(reads(mma_add("S", "a", "b")) == Names{"S", "a", "b"});
  CHECK(reads(row_reduce("t", Reduction::sum, "P", true)) == Names{"t", "P"});
  CHECK(reads(all_reduce("t", Reduction::sum)) == Names{"t"});
  CHECK(writes(all_reduce("t", Reduction::sum)) == Names{"t"});
}

TEST_CASE("an advance reads old values and writes what moves; new values are its own") {
  Advance advance;
  advance.updates = {{"m", Reduction::max, "cand"}};
  advance.moving = {{"l", parse_expr("l * (m - m_new) * c", {})}};
  CHECK(reads(statement(advance)) == Names{"m", "cand", "l", "c"});
  CHECK(writes(statement(advance)) == Names{"m", "l"});
}

TEST_CASE("a loop has the effects of its body, without its variable") {
  const Stmt chain = loop("j_o", "first", "last", {map("S", "S * j_o"), let("x", "j_o + n")});
  CHECK(reads(chain) == Names{"first", "last", "S", "n"});
  CHECK(writes(chain) == Names{"S", "x"});
}

TEST_CASE("two statements conflict if one writes what the other reads or writes") {
  const Stmt write = map("a", "b");
  CHECK(conflict(write, map("c", "a")));
  CHECK(conflict(map("c", "a"), write));
  CHECK(conflict(write, fill("a", 0)));
  CHECK(conflict(map("b", "c"), write));
  CHECK_FALSE(conflict(write, map("c", "b")));
  CHECK(conflict(write, loop("n", 0, 2, {when("0 < 1", {fill("b", 0)})})));
}

TEST_CASE("nothing passes a sync, a token its await, or a slot its release") {
  CHECK(conflict(sync(), fill("a", 0)));
  CHECK(conflict(loop("n", 0, 2, {sync()}), fill("a", 0)));
  CHECK(conflict(mma_async("S", "a", "b", "head"), await("head")));
  CHECK_FALSE(conflict(await("tail"), await("head")));
  CHECK(conflict(release("K_s"), mma("S", "Q_s", "K_s")));
  CHECK(conflict(acquire("K_s"), release("K_s")));
}

TEST_CASE("substitution reaches origins, bounds and values, and stops at what binds the name") {
  const std::map<std::string, Expr> values{{"n", Expr(7)}};
  const Block block{loop("j_o", "n", "n + 1", {map("S", "S + n")}),
                    loop("n", "n", 9, {map("S", "S + n")}),
                    copy("S", view("K[n, j]", {at("j", "n*4", "n*8")})),
                    copy("S", view("K[n]", {at("n", "n")})),
                    let("n", "n + 1"),
                    map("S", "n")};
  std::string text;
  for (const Stmt& stmt : substitute(block, values)) text += print(stmt);
  CHECK(text == R"(for j_o in 7 .. 7+1 serial
  map S = S + 7
for n in 7 .. 9 serial
  map S = S + n
copy S <- K[7,j] at j = 7*4 < 7*8
copy S <- K[n] at n = 7
let n = 7+1
map S = n
)");
}

TEST_CASE("blocks are rebuilt inside out") {
  std::vector<std::size_t> sizes;
  const Block block{loop("a", 0, 1, {when("0 < 1", {sync(), sync(), sync()}), sync()})};
  const Block out = transform_blocks(block, [&](Block inner) {
    sizes.push_back(inner.size());
    inner.erase(std::remove_if(inner.begin(), inner.end(),
                               [](const Stmt& stmt) { return std::holds_alternative<Sync>(stmt.node); }),
                inner.end());
    return inner;
  });
  CHECK(sizes == std::vector<std::size_t>{3, 2, 1});
  int count = 0;
  walk(out, [&](const Stmt&) { ++count; });
  CHECK(count == 2);
}

TEST_CASE("a kernel's parameters are the tensors that it touches, then extents, then scalars") {
  Program program = streaming();
  program.scalars = {"scale"};
  program.tensors.push_back(tensor(Tensor::Role::scratch, "untouched", {"Sq"}));
  std::string text;
  for (const Parameter& p : parameters_of(program, program.kernels[0])) {
    constexpr const char* kNames[] = {"pointer", "stride", "extent", "scalar"};
    text += std::string(kNames[static_cast<int>(p.kind)]) + " " + p.name;
    text += p.kind == Parameter::Kind::stride ? " " + std::to_string(p.dim) + "\n" : "\n";
  }
  CHECK(text ==
        "pointer Q\nstride Q 0\nstride Q 1\nstride Q 2\npointer K\nstride K 0\nstride K 1\nstride K 2\n"
        "pointer V\nstride V 0\nstride V 1\nstride V 2\npointer M\nstride M 0\nstride M 1\n"
        "pointer L\nstride L 0\nstride L 1\npointer O\nstride O 0\nstride O 1\nstride O 2\n"
        "extent B\nextent Sq\nextent Sk\nscalar scale\n");
}

TEST_CASE("the contracted axis of a product takes its extent from a tile, else from a view's limit") {
  const Program program = streaming({64, 32, 16, 24, false});
  const Kernel& kernel = program.kernels[0];
  std::vector<Dim> found;
  walk(kernel.body, [&](const Stmt& stmt) {
    if (const auto* s = std::get_if<Mma>(&stmt.node)) found.push_back(contraction_of(program, kernel, *s));
  });
  CHECK(found == std::vector<Dim>{{"d", 16}, {"j", 32}});
}

}  // namespace astatide::tile
