#pragma once

#include "tests/support/tile_build.h"

// Programs that several tests start from, written by hand: rows of scores, their exponentials over the running maximum,
// and the weighted sum of V's rows.

namespace astatide::tile::build {

struct StreamingOptions {
  int rows = 2, columns = 2, depth = 1, width = 4;  // of the tiles: i, j, d, e
  bool masked = false;                              // where j <= i + Sk - Sq
};

inline Program streaming_frame(const StreamingOptions& o) {
  Program program;
  program.name = "streaming";
  program.extents = {"B", "Sq", "Sk"};
  program.known = {{"D", o.depth}, {"Dv", o.width}};
  using Role = Tensor::Role;
  program.tensors = {tensor(Role::input, "Q", {"B", "Sq", "D"}),  tensor(Role::input, "K", {"B", "Sk", "D"}),
                     tensor(Role::input, "V", {"B", "Sk", "Dv"}), tensor(Role::output, "M", {"B", "Sq"}),
                     tensor(Role::output, "L", {"B", "Sq"}),      tensor(Role::output, "O", {"B", "Sq", "Dv"})};
  Kernel kernel;
  kernel.name = "main";
  kernel.tiles = {{"i_o", ceil_div(variable("Sq"), o.rows)}, {"b", variable("B")}};
  const Dim i{"i", o.rows};
  const Dim j{"j", o.columns};
  const Dim e{"e", o.width};
  kernel.mems = {in_registers("S", {i, j}),  in_registers("P", {i, j}), in_registers("cand", {i}),
                 in_registers("m", {i}),     in_registers("l", {i}),    in_registers("t", {i}),
                 in_registers("acc", {i, e})};
  program.kernels = {kernel};
  return program;
}

inline std::vector<Coordinate> row_at(const StreamingOptions& o) {
  return {at("i", Index(variable("i_o") * Expr(o.rows)), "Sq")};
}
inline Coordinate column_at(const StreamingOptions& o) {
  return at("j", Index(variable("j_o") * Expr(o.columns)), "Sk");
}

inline std::vector<Coordinate> both_at(const StreamingOptions& o) {
  std::vector<Coordinate> out = row_at(o);
  out.push_back(column_at(o));
  return out;
}

inline View rows_of(const std::string& element, const StreamingOptions& o, const std::string& axis,
                    const std::string& extent) {
  std::vector<Coordinate> coordinates = row_at(o);
  if (!axis.empty()) coordinates.push_back(at(axis, 0, extent));
  return view(element, coordinates);
}

/// One loop over tiles of j with an advance: as lowering leaves it.
inline Program streaming(const StreamingOptions& o = {}) {
  Program program = streaming_frame(o);
  Kernel& kernel = program.kernels[0];
  constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
  const View q = rows_of("Q[b,i,d]", o, "d", "D");
  const View k = view("K[b,j,d]", {column_at(o), at("d", 0, "D")});
  const View v = view("V[b,j,e]", {column_at(o), at("e", 0, "Dv")});
  const Expr m = variable("m");
  const Expr weight = exp(variable("S") - safe(m));
  const Expr alpha = exp(m - safe(variable("m_new")));
  std::vector<Index> mask;
  Stmt masked = map_where("S", "S", {}, kMinusInfinity, both_at(o));
  if (o.masked) std::get<Map>(masked.node).where_predicates = {parse_expr("j <= i + Sk - Sq", {}, true)};

  Advance advance;
  advance.updates = {{"m", Reduction::max, "cand"}};
  advance.moving = {{"l", variable("l") * alpha}, {"acc", variable("acc") * alpha}};
  kernel.body = {fill("m", kMinusInfinity),
                 fill("l", 0),
                 fill("acc", 0),
                 loop("j_o", 0, Index(ceil_div(variable("Sk"), o.columns)),
                      {mma("S", q, k), masked, row_reduce("cand", Reduction::max, "S"),
                       all_reduce("cand", Reduction::max), statement(advance), map("P", weight),
                       row_reduce("t", Reduction::sum, "P"), map("l", "l + t"), mma_add("acc", "P", v)}),
                 all_reduce("l", Reduction::sum),
                 copy(rows_of("M[b,i]", o, "", ""), "m"),
                 copy(rows_of("L[b,i]", o, "", ""), "l"),
                 map("acc", absorb(select(equal(variable("l"), 0), 0, Expr(1.0) / variable("l")), variable("acc"))),
                 copy(rows_of("O[b,i,e]", o, "e", "Dv"), "acc")};
  return program;
}

}  // namespace astatide::tile::build
