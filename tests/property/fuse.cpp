// Rows that are split and fused have the algorithm's values at every stage, whatever the loops, the groups and the
// recurrence are: groups that divide a tile and those that don't, one query and many, rows that see nothing.

#include <catch2/catch.hpp>

#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"
#include "tests/support/tensor_distance.h"

namespace astatide::testing {
namespace {

struct RowForm {
  std::string nest;  // of O
  std::string q_at, inner = "j.o";
  std::string rewrite = "online";
  std::string score = "";  // more directives of S
};

const std::string kGroups = "split: {h: [hk, g]}, fuse: {r: [g, i]}, ";

const std::vector<RowForm> kRowForms = {
    {kGroups + "tile: {r: 8, j: 12}, reorder: [b, hk, r.o, j.o], gpu_blocks: [r.o, hk, b]", "r.o"},
    {kGroups + "tile: {r: 4, j: 12}, rfactor: {j: [j.s, 3]}, reorder: [b, hk, r.o, j.s, j.o], "
               "gpu_blocks: [j.s, r.o, hk, b]",
     "j.s"},
    // The members of a group one after the other.
    {"split: {h: [hk, g]}, fuse: {r: [i, g]}, tile: {r: 8, j: 12}, reorder: [b, hk, r.o, j.o], "
     "gpu_blocks: [r.o, hk, b], descending: [j.o]",
     "r.o", "j.o", "{online: {rescale: optimistic, grow: 1, over: 3}}", ", overlap: {cover: 1/2}"},
    // Members alone, or not at all, in the rows of a tile.
    {"split: {h: [hk, g]}, tile: {g: 4, j: 12}, reorder: [b, hk, i, g.o, j.o], gpu_blocks: [g.o, i, hk, b]", "g.o"},
    {"split: {h: [hk, g]}, tile: {i: 4, j: 12}, reorder: [b, hk, g, i.o, j.o], gpu_blocks: [g, i.o, hk, b]", "i.o"},
    // State in global memory, and rows inside a block.
    {kGroups + "tile: {r: 4, j: 12}, reorder: [b, hk, j.o, r.o], gpu_blocks: [hk, b]", "r.o", "r.o"},
    {kGroups + "tile: {r: 8, j: 12}, reorder: [b, hk, r.o, j.o], gpu_blocks: [b]", "r.o"}};

Schedule with_rows(const Algorithm& algorithm, const RowForm& form) {
  Schedule out =
      parse_schedule("target: sm_80\nrewrite: " + form.rewrite + "\nO: {" + form.nest +
                         ", threads: [8, 4]}\nS: {compute_at: " + form.inner + ", store_in: register" + form.score +
                         "}\nP: {compute_at: " + form.inner + ", store_in: shared}\nQ: {stage_at: " + form.q_at +
                         ", store_in: shared}\nK: {stage_at: j.o, store_in: shared}\n"
                         "V: {stage_at: j.o, store_in: shared}\n",
                     "rows.yaml");
  return without_foreign_names(std::move(out), algorithm);
}

struct Shape {
  int heads, groups, queries, keys;
};

const std::vector<Shape> kRowShapes = {{4, 4, 5, 30}, {4, 2, 1, 41},  {8, 2, 3, 13}, {8, 1, 2, 60}, {6, 2, 5, 29},
                                       {5, 1, 7, 12}, {3, 3, 16, 37}, {6, 1, 9, 0},  {2, 1, 0, 20}, {10, 2, 41, 7}};

void require_rows(const std::string& name, std::uint32_t every) {
  const Algorithm algorithm = example_algorithm(name);
  std::uint32_t turn = 0;
  for (const RowForm& form : kRowForms)
    for (const Shape& shape : kRowShapes) {
      // Each shape under some of the forms, and each form at some of the shapes.
      if (++turn % every != 0) continue;
      auto extents = small_extents(algorithm, shape.queries, shape.keys);
      extents["Hq"] = shape.heads;
      extents["Hkv"] = shape.groups;
      require_every_stage(algorithm, with_rows(algorithm, form), extents, turn);
    }
}

/// An algorithm that names the members of a group, or has one head of keys for all.
Algorithm heads_of(const std::string& queries, const std::string& rows, const std::string& keys) {
  return parse_algorithm("algorithm: heads\nextents: [B, Hq, " + std::string(keys.empty() ? "" : "Hkv, ") +
                             "Sq, Sk, D]\ninputs: {Q: [" + queries + ", Sq, D], K: [B" + (keys.empty() ? "" : ", Hkv") +
                             ", Sk, D]}\ndefine:\n  - S[" + rows + ",i,j] = sum(d, Q[" + rows + ",i,d] * K[b" + keys +
                             ",j,d])\n  - A[" + rows + ",i,j] = S[" + rows + ",i,j] where j <= i + Sk - Sq\n  - L[" +
                             rows + ",i] = logsumexp(j, A[" + rows + ",i,j])\noutputs: [L]\n",
                         "heads.yaml");
}

}  // namespace

TEST_CASE("every stage of causal attention over fused rows has the oracle's values") { require_rows("causal_gqa", 1); }
TEST_CASE("every stage of other score functions over fused rows has the oracle's values") {
  // Also one whose references move sums by what differs from row to row: the sinks of heads.
  for (const char* name : {"attention", "sliding_window", "sink", "softcap_alibi", "document_mask", "prefix_lm"})
    require_rows(name, 7);
}
TEST_CASE("every stage of other recurrences over fused rows has the oracle's values") {
  for (const char* name : {"entropy", "sigmoid_attention", "linear_attention"}) {
    const Algorithm algorithm = example_algorithm(name);
    for (const Shape& shape : {kRowShapes[1], kRowShapes[4]}) {
      auto extents = small_extents(algorithm, shape.queries, shape.keys);
      extents["Hq"] = shape.heads;
      extents["Hkv"] = shape.groups;
      for (const RowForm& form : {kRowForms[0], kRowForms[1]})
        require_every_stage(algorithm, with_rows(algorithm, form), extents, 5);
    }
  }
}

TEST_CASE("scores and weights at root have fused rows, too") {
  const Algorithm algorithm = example_algorithm("causal_gqa");
  const Schedule schedule = parse_schedule(
      "target: sm_80\nrewrite: none\n"
      "S: {compute_root: true, tile: {r: 8, j: 8}, gpu_blocks: [j.o, r.o, hk, b], threads: [8, 4]}\n"
      "P: {compute_root: true, tile: {r: 4, j: 8}, reorder: [b, hk, r.o, j.o], gpu_blocks: [r.o, hk, b], "
      "threads: [8, 4]}\n"
      "O: {split: {h: [hk, g]}, fuse: {r: [g, i]}, tile: {r: 8, j: 8}, reorder: [b, hk, r.o, j.o], "
      "gpu_blocks: [r.o, hk, b], threads: [8, 4]}\n"
      "Q: {stage_at: j.o}\nK: {stage_at: j.o}\nV: {stage_at: j.o}\n",
      "root.yaml");
  for (const Shape& shape : {kRowShapes[2], kRowShapes[4], kRowShapes[9]}) {
    auto extents = small_extents(algorithm, shape.queries, shape.keys);
    extents["Hq"] = shape.heads;
    extents["Hkv"] = shape.groups;
    require_every_stage(algorithm, schedule, extents, 11);
  }
}

TEST_CASE("heads that the algorithm names by group, or that share all keys, are fused without split") {
  const Algorithm grouped = heads_of("B, Hkv, Hq", "b,k,g", ",k"), shared = heads_of("B, Hq", "b,g", "");
  const std::string rest = "threads: [8, 4]}\nS: {compute_at: j.o}\nQ: {stage_at: r.o}\nK: {stage_at: j.o}\n";
  for (const char* axes : {"[g, i]", "[i, g]"})
    for (const int queries : {1, 6})
      for (const int heads : {1, 3, 4}) {
        const std::string fuse = std::string("target: sm_80\nL: {fuse: {r: ") + axes + "}, tile: {r: 8, j: 8}, ";
        Sizes extents{{"B", 2}, {"Hq", heads}, {"Sq", queries}, {"Sk", 21}, {"D", 8}};
        require_every_stage(shared, parse_schedule(fuse + "gpu_blocks: [r.o, b], " + rest, "s.yaml"), extents, 4);
        extents["Hkv"] = 2;
        require_every_stage(grouped, parse_schedule(fuse + "gpu_blocks: [r.o, k, b], " + rest, "s.yaml"), extents, 3);
      }
}

TEST_CASE("three axes are fused: batch, heads and queries of one set of keys") {
  const Algorithm algorithm = parse_algorithm(
      "algorithm: shared_prefix\nextents: [B, Hq, Sq, Sk, D]\n"
      "inputs: {Q: [B, Hq, Sq, D], K: [Sk, D], N: {dims: [B], dtype: i32}}\ndefine:\n"
      "  - S[b,h,i,j] = sum(d, Q[b,h,i,d] * K[j,d]) where j < N[b] + i\n"
      "  - L[b,h,i] = logsumexp(j, S[b,h,i,j])\noutputs: [L]\n"
      "sizes: {B: 3, Hq: 2, Sq: 3, Sk: 20, D: 8}\n",
      "shared.yaml");
  const Schedule schedule = parse_schedule(
      "target: sm_80\nL: {fuse: {r: [h, i, b]}, tile: {r: 4, j: 8}, gpu_blocks: [r.o], threads: [8, 4]}\n"
      "S: {compute_at: j.o}\nQ: {stage_at: r.o}\nK: {stage_at: j.o}\n",
      "s.yaml");
  require_every_stage(algorithm, schedule, {{"B", 3}, {"Hq", 2}, {"Sq", 3}, {"Sk", 20}, {"D", 8}}, 9);
}

}  // namespace astatide::testing
