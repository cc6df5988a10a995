// The ranges of split loops against every element of small problems.

#include <catch2/catch.hpp>

#include "compiler/pipeline.h"
#include "tests/support/schedule_cases.h"

namespace astatide::testing {
namespace {

using Integers = std::map<std::string, std::int64_t>;

constexpr int kTileRows = 4, kTileColumns = 3;

/// The program of an algorithm after a stage, with small tiles.
tile::Program after_stage(const std::string& wanted, const Algorithm& algorithm, const std::string& order,
                          const std::string& blocks) {
  const std::string inner = order.ends_with("i.o]") ? "i.o" : "j.o";
  const Schedule schedule = parse_schedule(
      "target: sm_80\nO: {tile: {i: 4, j: 3}, reorder: " + order + ", gpu_blocks: " + blocks + ", threads: [4, 8]}\n" +
          "S: {compute_at: " + inner + ", store_in: register}\nP: {compute_at: " + inner +
          ", store_in: shared}\nQ: {stage_at: i.o, store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n" +
          "V: {stage_at: j.o, store_in: shared}\n",
      "schedule.yaml");
  CompileOptions options;
  options.target = *find_target("sm_80");
  options.sizes = algorithm.sizes;
  tile::Program out;
  compile(algorithm, schedule, options, [&](std::string_view stage, const tile::Program& program) {
    if (stage == wanted) out = program;
  });
  return out;
}

tile::Program split_loops(const Algorithm& algorithm, const std::string& order, const std::string& blocks) {
  return after_stage("split_masked_loops", algorithm, order, blocks);
}

/// The same of blocks that form clusters along the rows.
tile::Program split_in_clusters(const Algorithm& algorithm, const std::string& order, int blocks) {
  tile::Program program = after_stage("lower", algorithm, order, "[i.o, h, b]");
  program.kernels[0].cluster = tile::Cluster{"i_o", blocks, {}};
  for (const Pass& pass : pass_table())
    if (std::string_view(pass.name) == "split_masked_loops") return pass.run(program, *find_target("sm_80"));
  throw InternalError("no pass split_masked_loops");
}

struct Visit {
  std::int64_t i_o, j_o;
  bool tests_where, tests_limit;
};

/// Iterations of the innermost loops with a product, as evaluated from the loops' bounds.
void run(const tile::Block& block, Integers values, std::vector<Visit>& out) {
  for (const tile::Stmt& stmt : block) {
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) values[let->name] = evaluate_integer(let->value, values);
    if (const auto* loop = std::get_if<tile::For>(&stmt.node)) {
      const std::int64_t begin = evaluate_integer(loop->begin, values), end = evaluate_integer(loop->end, values);
      for (std::int64_t n = begin; n < end; ++n) {
        values[loop->var] = n;
        run(loop->body, values, out);
      }
    }
    if (const auto* mma = std::get_if<tile::Mma>(&stmt.node); mma && mma->dst == "S")
      out.push_back({values.at("i_o"), values.at("j_o"), false, false});
    if (const auto* map = std::get_if<tile::Map>(&stmt.node); map && map->dst == "S") {
      out.back().tests_where = !map->where_predicates.empty();
      for (const tile::Coordinate& c : map->at) out.back().tests_limit = out.back().tests_limit || c.limit;
    }
  }
}

std::vector<Visit> visits(const tile::Program& program, const Integers& extents) {
  const tile::Kernel& kernel = program.kernels.at(0);
  std::vector<Visit> out;
  std::vector<Integers> points = {extents};
  for (const tile::TileAxis& axis : kernel.tiles) {
    std::vector<Integers> next;
    for (const Integers& point : points)
      for (std::int64_t n = 0; n < evaluate_integer(axis.count, extents); ++n) {
        next.push_back(point);
        next.back()[axis.var] = n;
      }
    points = next;
  }
  for (const Integers& point : points) run(kernel.body, point, out);
  return out;
}

using Visible = std::function<bool(std::int64_t i, std::int64_t j)>;

/// Every tile with a visible element is visited, once; one that tests nothing has only visible elements; with
/// `tight`, a tile of rows that exist is visited only if it has a visible element, and tests only if it must.
void check_ranges(const tile::Program& program, const Integers& extents, const Visible& visible, bool tight) {
  const std::int64_t sq = extents.at("Sq"), sk = extents.at("Sk");
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Visit>> by_tile;
  for (const Visit& visit : visits(program, extents)) by_tile[{visit.i_o, visit.j_o}].push_back(visit);
  bool right = true;
  for (std::int64_t i_o = 0; i_o * kTileRows < sq; ++i_o)
    for (std::int64_t j_o = 0; j_o * kTileColumns < sk; ++j_o) {
      bool some = false, all = true;
      for (std::int64_t i = i_o * kTileRows; i < (i_o + 1) * kTileRows; ++i)
        for (std::int64_t j = j_o * kTileColumns; j < (j_o + 1) * kTileColumns; ++j) {
          const bool seen = j < sk && visible(i, j);
          some = some || (seen && i < sq);
          all = all && seen;
        }
      const auto found = by_tile[{i_o, j_o}];
      const bool whole_rows = (i_o + 1) * kTileRows <= sq;
      right = right && found.size() <= 1 && (!some || found.size() == 1);
      if (found.size() == 1 && !found[0].tests_where && !found[0].tests_limit) right = right && all;
      if (tight && whole_rows && found.size() == 1)
        right = right && some && (found[0].tests_where || found[0].tests_limit) == !all;
      if (!right) {
        INFO("Sq " << sq << " Sk " << sk << " tile " << i_o << "," << j_o << "\n" << tile::print(program));
        REQUIRE(right);
      }
    }
  for (const auto& [tile, found] : by_tile) REQUIRE((found.empty() || tile.second * kTileColumns < sk));
}

void for_lengths(const std::function<void(std::int64_t sq, std::int64_t sk)>& f) {
  for (std::int64_t sq : {1, 4, 5, 9, 16})
    for (std::int64_t sk : {0, 1, 3, 4, 8, 14}) f(sq, sk);
}

Integers with(const Algorithm& algorithm, Integers lengths) {
  Integers out = algorithm.sizes;
  out["B"] = out["Hq"] = out["Hkv"] = 1;
  for (const auto& [name, value] : lengths) out[name] = value;
  return out;
}

constexpr const char* kRowsOutside = "[b, h, i.o, j.o]";
constexpr const char* kAxisOutside = "[b, h, j.o, i.o]";

}  // namespace

TEST_CASE("causal tiles are visited where something is visible and tested where something is not") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const tile::Program program = split_loops(algorithm, kRowsOutside, "[i.o, h, b]");
  for_lengths([&](std::int64_t sq, std::int64_t sk) {
    check_ranges(
        program, with(algorithm, {{"Sq", sq}, {"Sk", sk}}),
        [=](std::int64_t i, std::int64_t j) { return j <= i + sk - sq; }, true);
  });
}

TEST_CASE("with the reduced axis outside, the loop over the rows is split") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const tile::Program program = split_loops(algorithm, kAxisOutside, "[h, b]");
  for_lengths([&](std::int64_t sq, std::int64_t sk) {
    check_ranges(
        program, with(algorithm, {{"Sq", sq}, {"Sk", sk}}),
        [=](std::int64_t i, std::int64_t j) { return j <= i + sk - sq; }, false);
  });
}

TEST_CASE("a window bounds tiles at both ends") {
  const Algorithm algorithm = example_algorithm("sliding_window");
  for (const auto& [order, blocks] : {std::pair{kRowsOutside, "[i.o, h, b]"}, {kAxisOutside, "[h, b]"}}) {
    const tile::Program program = split_loops(algorithm, order, blocks);
    for_lengths([&](std::int64_t sq, std::int64_t sk) {
      for (const std::int64_t left : {0, 2, 7})
        for (const std::int64_t right : {0, 3})
          check_ranges(
              program, with(algorithm, {{"Sq", sq}, {"Sk", sk}, {"Left", left}, {"Right", right}}),
              [=](std::int64_t i, std::int64_t j) { return j + left >= i + sk - sq && j <= i + sk - sq + right; },
              false);
    });
  }
}

TEST_CASE("blocks of a cluster visit the same tiles: those that any of their rows sees") {
  for (const char* name : {"causal_gqa", "sliding_window"}) {
    const Algorithm algorithm = example_algorithm(name);
    for (const int blocks : {2, 4}) {
      const tile::Program program = split_in_clusters(algorithm, kRowsOutside, blocks);
      for_lengths([&](std::int64_t sq, std::int64_t sk) {
        const Integers extents = with(algorithm, {{"Sq", sq}, {"Sk", sk}, {"Left", 2}, {"Right", 3}});
        const bool window = std::string_view(name) == "sliding_window";
        const auto visible = [=](std::int64_t i, std::int64_t j) {
          return j <= i + sk - sq + (window ? 3 : 0) && (!window || j + 2 >= i + sk - sq);
        };
        check_ranges(program, extents, visible, false);
        std::map<std::int64_t, std::vector<std::pair<std::int64_t, bool>>> by_block;
        std::map<std::int64_t, bool> seen;  // of a cluster
        for (std::int64_t i = 0; i < sq; ++i)
          for (std::int64_t j = 0; j < sk; ++j) seen[i / kTileRows / blocks] |= visible(i, j);
        for (const Visit& visit : visits(program, extents))
          by_block[visit.i_o].emplace_back(visit.j_o, visit.tests_where);
        bool alike = true, empty_left_out = true;
        for (const auto& [i_o, visited] : by_block) {
          alike = alike && visited == by_block[i_o / blocks * blocks];
          const bool whole = (i_o / blocks + 1) * blocks * kTileRows <= sq;
          empty_left_out = empty_left_out && (!whole || seen[i_o / blocks]);
        }
        INFO(name << " Sq " << sq << " Sk " << sk << "\n" << tile::print(program));
        REQUIRE(alike);
        REQUIRE(empty_left_out);
      });
    }
  }
}

TEST_CASE("a predicate that is not affine stays tested in every tile") {
  const Algorithm algorithm = example_algorithm("dilated");
  const tile::Program program = split_loops(algorithm, kRowsOutside, "[i.o, h, b]");
  for (const Visit& visit : visits(program, with(algorithm, {{"Sq", 9}, {"Sk", 14}, {"Step", 4}})))
    CHECK(visit.tests_where);
}

TEST_CASE("where one of several predicates is to hold, tiles are full where one does and left out where none does") {
  struct Either {
    std::string where;
    std::function<bool(std::int64_t i, std::int64_t j)> visible;
    bool tight;
  };
  constexpr std::int64_t kPrefix = 5;
  const auto seen = [](std::int64_t i, std::int64_t j) { return (i + j) % 3 == 0; };
  const std::vector<Either> cases = {
      {"j < Prefix or j <= i", [](std::int64_t i, std::int64_t j) { return j < kPrefix || j <= i; }, true},
      {"j >= Prefix or j > i", [](std::int64_t i, std::int64_t j) { return j >= kPrefix || j > i; }, false},
      {"not (j >= Prefix and j > i)", [](std::int64_t i, std::int64_t j) { return j < kPrefix || j <= i; }, true},
      {"j < i - 2 or j > i + Prefix", [](std::int64_t i, std::int64_t j) { return j < i - 2 || j > i + kPrefix; },
       false},
      {"j == i or j == i + Prefix", [](std::int64_t i, std::int64_t j) { return j == i || j == i + kPrefix; }, false},
      {"j < Prefix or seen[i, j]", [&](std::int64_t i, std::int64_t j) { return j < kPrefix || seen(i, j); }, false},
      {"(j < Prefix and seen[i, j]) or j < 2 or j < i - 4",
       [&](std::int64_t i, std::int64_t j) { return (j < kPrefix && seen(i, j)) || j < 2 || j < i - 4; }, false},
  };
  for (const Either& either : cases) {
    const Algorithm algorithm = parse_algorithm(
        "algorithm: either\nextents: [B, Hq, Sq, Sk, D, Dv, Prefix]\ninputs: {Q: [B, Hq, Sq, D], K: [B, Hq, Sk, D], "
        "V: [B, Hq, Sk, Dv]" +
            std::string(either.where.find("seen") != std::string::npos ? ", seen: {dims: [Sq, Sk], dtype: bool}" : "") +
            "}\ndefine:\n  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d])\n  - A[b,h,i,j] = S[b,h,i,j] where " +
            either.where +
            "\n  - P[b,h,i,j] = softmax(j, A[b,h,i,j])\n  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\n"
            "outputs: [O]\nsizes: {B: 1, Hq: 1, Sq: 16, Sk: 16, D: 4, Dv: 4, Prefix: 5}\n",
        "either.yaml");
    const tile::Program program = split_loops(algorithm, kRowsOutside, "[i.o, h, b]");
    INFO(either.where);
    std::size_t free_of_tests = 0;
    for_lengths([&](std::int64_t sq, std::int64_t sk) {
      Integers extents = algorithm.sizes;
      extents["Sq"] = sq;
      extents["Sk"] = sk;
      check_ranges(program, extents, either.visible, either.tight);
      for (const Visit& visit : visits(program, extents)) free_of_tests += !visit.tests_where;
    });
    // Equalities hold in no whole tile of these sizes.
    CHECK((free_of_tests > 0) == (either.where.find("==") == std::string::npos));
  }
}

TEST_CASE("blocks of rows and columns are split through the division of the other coordinate") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: blocks\nextents: [B, Hq, Sq, Sk, D, Dv]\ninputs: {Q: [B, Hq, Sq, D], K: [B, Hq, Sk, D], V: [B, Hq, "
      "Sk, Dv]}\n"
      "define:\n  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[b,h,j,d])\n  - A[b,h,i,j] = S[b,h,i,j] where j < floor_div(i, "
      "4) * 4 + min(i, 3)\n"
      "  - P[b,h,i,j] = softmax(j, A[b,h,i,j])\n  - O[b,h,i,e] = sum(j, P[b,h,i,j] * V[b,h,j,e])\noutputs: [O]\n"
      "sizes: {B: 1, Hq: 1, Sq: 16, Sk: 16, D: 4, Dv: 4}\n",
      "blocks.yaml");
  const tile::Program program = split_loops(algorithm, kRowsOutside, "[i.o, h, b]");
  for_lengths([&](std::int64_t sq, std::int64_t sk) {
    Integers extents = algorithm.sizes;
    extents["Sq"] = sq;
    extents["Sk"] = sk;
    check_ranges(
        program, extents, [](std::int64_t i, std::int64_t j) { return j < i / 4 * 4 + std::min<std::int64_t>(i, 3); },
        false);
  });
}

}  // namespace astatide::testing
