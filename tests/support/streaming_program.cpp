#include "tests/support/streaming_program.h"

#include <cmath>

#include "tests/support/infinity.h"
#include "tests/support/tile_statements.h"

namespace astatide::testing {
namespace {

using namespace tile;        // NOLINT: only in this file
using namespace statements;  // NOLINT
using astatide::variable;

class Build {
 public:
  explicit Build(const StreamingSizes& sizes) : s_(sizes) {}

  Program program(const std::string& name) const {
    Program p;
    p.name = name;
    p.extents = {"B", "H", "Sq", "Sk"};
    p.known = {{"D", s_.head_dim}, {"Dv", s_.value_dim}};
    p.scalars = {"c"};
    const Expr B = variable("B"), H = variable("H"), Sq = variable("Sq"), Sk = variable("Sk");
    p.tensors = {{"Q", s_.type, {B, H, Sq, variable("D")}, Tensor::Role::input},
                 {"K", s_.type, {B, H, Sk, variable("D")}, Tensor::Role::input},
                 {"V", s_.type, {B, H, Sk, variable("Dv")}, Tensor::Role::input},
                 {"O", s_.type, {B, H, Sq, variable("Dv")}, Tensor::Role::output},
                 {"L", ScalarType::f32, {B, H, Sq}, Tensor::Role::output}};
    return p;
  }

  View rows(const std::string& tensor, const std::string& axis, const std::string& last, double absent = 0) const {
    const bool of_i = axis == "i";
    View v;
    v.tensor = tensor;
    v.indices = {variable("b"), variable("h"), variable(axis)};
    v.at = {{axis, variable(of_i ? "i_o" : "j_o") * Expr(of_i ? s_.rows : s_.columns), variable(of_i ? "Sq" : "Sk")}};
    if (!last.empty()) {
      v.indices.push_back(variable(last));
      if (last == "j")
        v.at.push_back({"j", variable("j_o") * Expr(s_.columns), variable("Sk")});
      else
        v.at.push_back({last, Expr(0), std::nullopt});
    }
    v.absent = absent;
    return v;
  }

  Map masked(const std::string& dst, Expr value) const {
    Map m = map(dst, std::move(value));
    m.at = {{"i", variable("i_o") * Expr(s_.rows), std::nullopt},
            {"j", variable("j_o") * Expr(s_.columns), std::nullopt}};
    m.where_predicates = {less(variable("j"), variable("Sk"))};
    if (s_.causal)
      m.where_predicates.push_back(less_equal(variable("j"), variable("i") + variable("Sk") - variable("Sq")));
    m.absent = -kInfinity;
    return m;
  }

  // First tile of columns that may hold an absent element, and one past the last that holds any.
  std::pair<Expr, Expr> ranges() const {
    const Expr n(s_.columns), i = variable("i_o") * Expr(s_.rows);
    Expr full = floor_div(variable("Sk"), n), any = ceil_div(variable("Sk"), n);
    if (s_.causal) {
      const Expr shift = variable("Sk") - variable("Sq");
      full = min(full, max(Expr(0), floor_div(i + shift + Expr(1), n)));
      any = max(full, min(any, ceil_div(max(Expr(0), i + Expr(s_.rows) + shift), n)));
    }
    return {full, any};
  }

  Block step(bool partial) const {
    const auto safe_if = [&](const Expr& e) { return partial ? safe(e) : e; };
    const Expr c = variable("c");
    Block b;
    b.push_back(stmt(copy("K_s", rows("K", "j", "d"))));
    b.push_back(stmt(Sync{}));
    b.push_back(stmt(product("S", "Q_s", "K_s", false)));
    if (partial) b.push_back(stmt(masked("S", variable("S"))));
    b.push_back(stmt(reduce("cand", Reduction::max, "S")));
    b.push_back(stmt(AllReduce{"cand", Reduction::max}));
    b.push_back(stmt(map("m_new", max(variable("m"), variable("cand")))));
    b.push_back(stmt(map("alpha", call(Op::exp2, {c * variable("m") - c * safe_if(variable("m_new"))}))));
    b.push_back(stmt(map("m", variable("m_new"))));
    b.push_back(stmt(map("l", variable("l") * variable("alpha"))));
    b.push_back(stmt(map("acc", variable("acc") * variable("alpha"))));
    b.push_back(stmt(map("row0", c * safe_if(variable("m")))));
    b.push_back(stmt(map("P", call(Op::exp2, {c * variable("S") - variable("row0")}))));
    b.push_back(stmt(reduce("t", Reduction::sum, "P")));
    b.push_back(stmt(map("l", variable("l") + variable("t"))));
    b.push_back(stmt(map("P_op", variable("P"))));
    b.push_back(stmt(copy("V_s", rows("V", "j", "e"))));
    b.push_back(stmt(Sync{}));
    b.push_back(stmt(product("acc", "P_op", "V_s", true)));
    return b;
  }

  Kernel streaming() const {
    Kernel k;
    k.name = "streaming";
    k.tiles = {{"i_o", ceil_div(variable("Sq"), Expr(s_.rows))}, {"h", variable("H")}, {"b", variable("B")}};
    const Dim i{"i", s_.rows}, j{"j", s_.columns}, d{"d", s_.head_dim}, e{"e", s_.value_dim};
    k.mems = {mem("Q_s", {i, d}, Space::shared, s_.type), mem("K_s", {j, d}, Space::shared, s_.type),
              mem("V_s", {j, e}, Space::shared, s_.type), mem("P_op", {i, j}, Space::shared, s_.type)};
    for (const char* name : {"m", "l", "cand", "m_new", "alpha", "row0", "t", "L_tile"})
      k.mems.push_back(mem(name, {i}));
    for (const char* name : {"S", "P"}) k.mems.push_back(mem(name, {i, j}));
    for (const char* name : {"acc", "O_tile"}) k.mems.push_back(mem(name, {i, e}));
    const auto [full, any] = ranges();
    k.body = {stmt(fill("m", -kInfinity)), stmt(fill("l", 0)),
              stmt(fill("acc", 0)),        stmt(copy("Q_s", rows("Q", "i", "d"))),
              stmt(Let{"j_full", full}),   stmt(Let{"j_any", any})};
    For loop{"j_o", Expr(0), variable("j_full"), For::Kind::serial, false, step(false), "full"};
    k.body.push_back(stmt(loop));
    loop = {"j_o", variable("j_full"), variable("j_any"), For::Kind::serial, false, step(true), "partial"};
    k.body.push_back(stmt(loop));
    const Expr l = variable("l"), none = call(Op::eq, {l, Expr(0.0)});
    k.body.push_back(stmt(
        map("L_tile", select(none, Expr(-kInfinity), variable("m") * variable("c") * Expr(std::log(2.0)) + log(l)))));
    k.body.push_back(stmt(map("O_tile", select(none, Expr(0.0), variable("acc") / l))));
    k.body.push_back(stmt(copy(rows("L", "i", ""), "L_tile")));
    k.body.push_back(stmt(copy(rows("O", "i", "e"), "O_tile")));
    return k;
  }

  Kernel scores() const {
    Kernel k;
    k.name = "scores";
    k.tiles = {{"j_o", ceil_div(variable("Sk"), Expr(s_.columns))},
               {"i_o", ceil_div(variable("Sq"), Expr(s_.rows))},
               {"h", variable("H")},
               {"b", variable("B")}};
    const Dim i{"i", s_.rows}, j{"j", s_.columns}, d{"d", s_.head_dim};
    k.mems = {mem("Q_s", {i, d}, Space::shared, s_.type), mem("K_s", {j, d}, Space::shared, s_.type), mem("S", {i, j})};
    k.body = {stmt(copy("Q_s", rows("Q", "i", "d"))), stmt(copy("K_s", rows("K", "j", "d"))),
              stmt(product("S", "Q_s", "K_s", false)), stmt(masked("S", variable("S"))),
              stmt(copy(rows("S_root", "i", "j"), "S"))};
    return k;
  }

  Kernel weights() const {
    Kernel k;
    k.name = "weights";
    k.tiles = {{"i_o", ceil_div(variable("Sq"), Expr(s_.rows))}, {"h", variable("H")}, {"b", variable("B")}};
    const Dim i{"i", s_.rows}, j{"j", s_.columns};
    for (const char* name : {"m", "l", "cand", "t", "row0", "L_tile"}) k.mems.push_back(mem(name, {i}));
    for (const char* name : {"S", "P"}) k.mems.push_back(mem(name, {i, j}));
    const Stmt load = stmt(copy("S", rows("S_root", "i", "j", -kInfinity)));
    const Expr n = ceil_div(variable("Sk"), Expr(s_.columns)), c = variable("c"), l = variable("l");
    const auto over_j = [&](Block body) {
      return stmt(For{"j_o", Expr(0), n, For::Kind::serial, false, std::move(body), ""});
    };
    k.body = {
        stmt(fill("m", -kInfinity)),
        stmt(fill("l", 0)),
        over_j({load, stmt(reduce("cand", Reduction::max, "S")), stmt(map("m", max(variable("m"), variable("cand"))))}),
        stmt(map("row0", c * safe(variable("m")))),
        over_j({load, stmt(map("P", call(Op::exp2, {c * variable("S") - variable("row0")}))),
                stmt(reduce("t", Reduction::sum, "P")), stmt(map("l", l + variable("t")))}),
        over_j({load,
                stmt(map("P", select(call(Op::eq, {l, Expr(0.0)}), Expr(0.0),
                                     call(Op::exp2, {c * variable("S") - variable("row0")}) / l))),
                stmt(copy(rows("P_root", "i", "j"), "P"))}),
        stmt(map("L_tile", select(call(Op::eq, {l, Expr(0.0)}), Expr(-kInfinity),
                                  variable("m") * c * Expr(std::log(2.0)) + log(l)))),
        stmt(copy(rows("L", "i", ""), "L_tile"))};
    return k;
  }

  Kernel output() const {
    Kernel k;
    k.name = "output";
    k.tiles = {{"i_o", ceil_div(variable("Sq"), Expr(s_.rows))}, {"h", variable("H")}, {"b", variable("B")}};
    const Dim i{"i", s_.rows}, j{"j", s_.columns}, e{"e", s_.value_dim};
    k.mems = {mem("P_s", {i, j}, Space::shared), mem("V_s", {j, e}, Space::shared, s_.type), mem("acc", {i, e})};
    k.body = {stmt(fill("acc", 0)),
              stmt(For{"j_o",
                       Expr(0),
                       ceil_div(variable("Sk"), Expr(s_.columns)),
                       For::Kind::serial,
                       false,
                       {stmt(copy("P_s", rows("P_root", "i", "j"))), stmt(copy("V_s", rows("V", "j", "e"))),
                        stmt(product("acc", "P_s", "V_s", true))},
                       ""}),
              stmt(copy(rows("O", "i", "e"), "acc"))};
    return k;
  }

 private:
  StreamingSizes s_;
};

}  // namespace

tile::Program streaming_program(const StreamingSizes& sizes) {
  const Build build(sizes);
  Program p = build.program("streaming");
  p.kernels = {build.streaming()};
  return p;
}

tile::Program three_kernel_program(const StreamingSizes& sizes) {
  const Build build(sizes);
  Program p = build.program("three_kernels");
  const std::vector<Expr> square = {variable("B"), variable("H"), variable("Sq"), variable("Sk")};
  p.tensors.push_back({"S_root", ScalarType::f32, square, Tensor::Role::scratch});
  p.tensors.push_back({"P_root", ScalarType::f32, square, Tensor::Role::scratch});
  p.kernels = {build.scores(), build.weights(), build.output()};
  return p;
}

}  // namespace astatide::testing
