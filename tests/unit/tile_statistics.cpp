#include "compiler/tile/statistics.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/tile_streaming.h"

namespace astatide::tile {
namespace {

using namespace build;

const StreamingOptions kTiles{64, 64, 32, 16};

const KernelStatistics& only(const Statistics& statistics) { return statistics.kernels.at(0); }

/// The same with the mask's loop bound: tiles of j up to the diagonal only.
Program up_to_the_diagonal() {
  Program program = streaming(kTiles);
  for (Stmt& stmt : program.kernels[0].body)
    if (auto* chain = std::get_if<For>(&stmt.node)) chain->end = variable("last");
  Block& body = program.kernels[0].body;
  body.insert(body.begin(), let("last", "min((Sk + 63) / 64, i_o + 1)"));
  return program;
}

}  // namespace

TEST_CASE("products count two operations for each element and contracted element") {
  const Statistics s = statistics_of(streaming(kTiles), {{"B", 2}, {"Sq", 128}, {"Sk", 256}});
  CHECK(only(s).tiles == 4);
  CHECK(only(s).product_flops == 2.0 * 2 * 128 * 256 * (32 + 16));
  CHECK(s.exact);
}

TEST_CASE("a tile is computed whole, and only what lies inside a tensor is moved") {
  const Statistics s = statistics_of(streaming(kTiles), {{"B", 1}, {"Sq", 1}, {"Sk", 100}});
  CHECK(only(s).product_flops == 2.0 * 64 * 128 * (32 + 16));
  CHECK(only(s).global.at("K").read == 100 * 32 * 4);
  CHECK(only(s).global.at("V").read == 100 * 16 * 4);
  CHECK(only(s).global.at("O").written == 16 * 4);
  CHECK(only(s).global.at("Q").read == 2 * 32 * 4);  // the view stands in the loop over j
}

TEST_CASE("exponentials are counted apart from other arithmetic") {
  const Statistics s = statistics_of(streaming(kTiles), {{"B", 1}, {"Sq", 64}, {"Sk", 64}});
  // P, and alpha for l and for acc, as the advance writes it.
  CHECK(only(s).transcendentals == 64 * 64 + 64 + 64 * 16);
  CHECK(only(s).element_flops > 0);
}

TEST_CASE("loop bounds that depend on a tile axis are summed over it") {
  const auto flops = [](std::int64_t rows) {
    return only(statistics_of(up_to_the_diagonal(), {{"B", 3}, {"Sq", rows}, {"Sk", rows}})).product_flops;
  };
  // 1 + 2 + 3 + 4 tiles of 16.
  CHECK(flops(256) / flops(64) == 10);
}

TEST_CASE("shapes of any length are counted in a moment") {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t rows = std::int64_t{1} << 24;
  const Statistics s = statistics_of(up_to_the_diagonal(), {{"B", 4096}, {"Sq", rows}, {"Sk", rows}});
  const double tiles = static_cast<double>(rows) / 64;
  CHECK(only(s).product_flops == Approx(4096 * tiles * (tiles + 1) / 2 * 2 * 64 * 64 * 48).epsilon(1e-3));
  CHECK_FALSE(s.exact);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("scratch tensors count with their bytes, other tensors do not") {
  Program program = streaming(kTiles);
  CHECK(statistics_of(program, {{"B", 32}, {"Sq", 8192}, {"Sk", 8192}}).scratch_bytes() == 0);
  program.tensors.push_back(tensor(Tensor::Role::scratch, "S_root", {"B", "Sq", "Sk"}));
  CHECK(statistics_of(program, {{"B", 32}, {"Sq", 8192}, {"Sk", 8192}}).scratch_bytes() == 8.0 * (1U << 30U));
}

TEST_CASE("shared tiles count when read and when written") {
  Program program =
      one_kernel({in_shared("s", {{"i", 4}}, 2)},
                 {loop("n", 0, 3, {copy("s", view("X[i]", {at("i", 0)}))}), copy(view("Y[i]", {at("i", 0)}), "s")});
  const Statistics s = statistics_of(program, {});
  CHECK(only(s).shared.written == 3 * 16);
  CHECK(only(s).shared.read == 16);
  CHECK(only(s).shared_bytes == 2 * 16);
  program.kernels[0].shared_bytes = 1024;
  CHECK(only(statistics_of(program, {})).shared_bytes == 1024);
}

TEST_CASE("a condition on data counts as true unless it is cold") {
  const Stmt step = map("t", "t + 1");
  Stmt branch = when("go", {step});
  const auto count = [&](const Stmt& stmt) {
    return statistics_of(one_kernel({in_registers("t", {{"i", 4}})}, {fill("t", 0), vote("go", "t > 0"), stmt}), {});
  };
  CHECK(only(count(branch)).element_flops == 4 + 4);
  CHECK_FALSE(count(branch).exact);
  std::get<If>(branch.node).cold = true;
  CHECK(only(count(branch)).element_flops == 4);
}

}  // namespace astatide::tile
