#include "compiler/rewrite/isolate.h"

#include "compiler/algorithm/build.h"

namespace astatide {
namespace {

/// The operand at `side` of `c` = `value`, given the other one.
std::optional<Expr> operand_of(const Call& c, std::size_t side, const Expr& value) {
  const auto other = [&] { return c.args[1 - side]; };
  switch (c.op) {
    case Op::add:
      return value - other();
    case Op::sub:
      return side == 0 ? value + other() : other() - value;
    case Op::mul:
    case Op::absorb:
      return value / other();
    case Op::div:
      return side == 0 ? value * other() : other() / value;
    case Op::neg:
      return -value;
    case Op::exp:
      return log(value);
    case Op::log:
      return exp(value);
    case Op::exp2:
      return call(Op::log2, {value});
    case Op::log2:
      return exp2(value);
    case Op::safe:  // where the value is finite
      return value;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Expr> isolate(const std::string& x, const Expr& e, const Expr& value) {
  if (e == variable(x)) return value;
  const auto* c = e.as<Call>();
  if (c == nullptr) return std::nullopt;
  std::optional<std::size_t> side;
  for (std::size_t n = 0; n < c->args.size(); ++n) {
    if (!free_variables(c->args[n]).contains(x)) continue;
    if (side) return std::nullopt;
    side = n;
  }
  if (!side) return std::nullopt;
  const std::optional<Expr> operand = operand_of(*c, *side, value);
  return operand ? isolate(x, c->args[*side], *operand) : std::nullopt;
}

}  // namespace astatide
