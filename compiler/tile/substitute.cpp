#include <map>

#include "compiler/support/match.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {
namespace {

using Values = std::map<std::string, Expr>;

Values without(const Values& values, const std::vector<Coordinate>& at) {
  Values out = values;
  for (const Coordinate& coordinate : at) out.erase(coordinate.axis);
  return out;
}

void replace(Expr& e, const Values& values) { e = astatide::substitute(e, values); }

void replace(std::vector<Coordinate>& at, const Values& values) {
  for (Coordinate& coordinate : at) {
    replace(coordinate.origin, values);
    if (coordinate.limit) replace(*coordinate.limit, values);
  }
}

void replace(View& view, const Values& values) {
  const Values inner = without(values, view.at);
  for (Expr& index : view.indices) replace(index, inner);
  replace(view.at, values);
}

void replace(Operand& operand, const Values& values) {
  match(
      operand, [](TileName&) {}, [&](View& view) { replace(view, values); });
}

void replace(CopyOperand& operand, const Values& values) {
  match(
      operand, [](TileName&) {}, [&](View& view) { replace(view, values); },
      [&](Strip& strip) { replace(strip.at, values); });
}

void replace(Block& block, Values values);

void replace(Stmt& stmt, Values& values) {
  match(
      stmt.node,
      [&](For& s) {
        replace(s.begin, values);
        replace(s.end, values);
        Values inner = values;
        inner.erase(s.var);
        replace(s.body, std::move(inner));
      },
      [&](If& s) {
        replace(s.condition, values);
        replace(s.body, values);
      },
      [&](Role& s) { replace(s.body, values); },
      [&](Let& s) {
        replace(s.value, values);
        if (s.own) replace(*s.own, values);
        values.erase(s.name);
      },
      [](Fill&) {},
      [&](Map& s) {
        const Values inner = without(values, s.at);
        replace(s.value, inner);
        for (Expr& predicate : s.where_predicates) replace(predicate, inner);
        replace(s.at, values);
      },
      [](RowReduce&) {}, [](AllReduce&) {}, [&](Vote& s) { replace(s.condition, values); },
      [&](Mma& s) {
        replace(s.lhs, values);
        replace(s.rhs, values);
      },
      [&](Copy& s) {
        replace(s.dst, values);
        replace(s.src, values);
      },
      [](Await&) {},
      [&](Advance& s) {
        for (Advance::Move& move : s.moving) replace(move.by, values);
        if (s.slack) replace(s.slack->growth, values);
      },
      [&](Reserve& s) {
        if (s.ahead) replace(*s.ahead, values);
      },
      [&](Acquire& s) { replace(s.at, values); }, [](Release&) {}, [](Sync&) {}, [](Turn&) {},
      [&](Arrive& s) {
        replace(s.of, values);
        for (Expr& index : s.indices) replace(index, values);
      });
}

void replace(Block& block, Values values) {
  for (Stmt& stmt : block) replace(stmt, values);
}

}  // namespace

Block substitute(const Block& block, const Values& values) {
  Block out = block;
  replace(out, values);
  return out;
}

}  // namespace astatide::tile
