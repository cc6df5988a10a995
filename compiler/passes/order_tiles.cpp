#include "compiler/passes/order_tiles.h"

#include <algorithm>

#include "compiler/passes/loop_chains.h"

namespace astatide {
namespace {

using tile::Block;
using tile::For;
using tile::Kernel;
using tile::Stmt;

/// What an integer does while a variable grows.
enum class Trend : std::uint8_t { none, up, down, unknown };

Trend reversed(Trend trend) {
  if (trend == Trend::up) return Trend::down;
  return trend == Trend::down ? Trend::up : trend;
}

/// Of a sum, or of a minimum or maximum, of two.
Trend together(Trend a, Trend b) {
  if (a == Trend::none || a == b) return b;
  return b == Trend::none ? a : Trend::unknown;
}

/// Extents and tile axes are not negative.
Trend trend_of(const Expr& e, const std::string& name) {
  if (!free_variables(e).contains(name)) return Trend::none;
  if (e.as<Variable>()) return Trend::up;
  const auto* c = e.as<Call>();
  if (!c || c->args.size() != 2) return Trend::unknown;
  const Trend first = trend_of(c->args[0], name), second = trend_of(c->args[1], name);
  switch (c->op) {
    case Op::add:
    case Op::min:
    case Op::max:
      return together(first, second);
    case Op::sub:
      return together(first, reversed(second));
    case Op::mul:
    case Op::floor_div: {
      // By a constant that is not negative.
      const bool swapped = c->op == Op::mul && c->args[0].as<Integer>();
      const auto* number = c->args[swapped ? 0 : 1].as<Integer>();
      return number && number->value >= 0 ? (swapped ? second : first) : Trend::unknown;
    }
    default:
      return Trend::unknown;
  }
}

/// How many iterations the outermost loops of a block run, those that follow each other together.
std::vector<Expr> lengths_of(const Block& block) {
  std::vector<Expr> out;
  std::map<std::string, Expr> lets;
  const For* last = nullptr;
  Expr begin, end;
  const auto close = [&] {
    if (last) out.push_back(substitute(end - begin, lets));
    last = nullptr;
  };
  for (const Stmt& stmt : block) {
    if (const auto* let = std::get_if<tile::Let>(&stmt.node)) lets.emplace(let->name, substitute(let->value, lets));
    const auto* loop = std::get_if<For>(&stmt.node);
    if (!loop || loop->kind != For::Kind::serial) continue;
    if (!last || !adjoin(*last, *loop)) {
      close();
      begin = loop->begin;
      end = loop->end;
    }
    (loop->descending ? begin : end) = loop->descending ? loop->begin : loop->end;
    last = loop;
  }
  close();
  return out;
}

void order(Kernel& kernel) {
  const std::vector<Expr> lengths = lengths_of(kernel.body);
  for (tile::TileAxis& axis : kernel.tiles) {
    Trend all = Trend::none;
    for (const Expr& length : lengths) all = together(all, trend_of(length, axis.var));
    axis.descending = all == Trend::up;
  }
}

}  // namespace

tile::Program order_tiles(const tile::Program& program, const Target&) {
  tile::Program out = program;
  for (Kernel& kernel : out.kernels) {
    // Blocks of a grid start in its order, too.
    const bool grid = !kernel.persistent && kernel.threads() > 0;
    if (grid || kernel.persistent == TileOrder::longest_first) order(kernel);
    if (kernel.persistent) kernel.persistent = TileOrder::linear;
  }
  return out;
}

}  // namespace astatide
