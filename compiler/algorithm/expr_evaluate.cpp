#include <cmath>
#include <limits>

#include "compiler/algorithm/expr.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

[[noreturn]] void overflow(const Expr& e) {
  throw UserError("the value of " + to_string(e) + " does not fit in 64 bits");
}

std::int64_t divide(const Expr& e, std::int64_t a, std::int64_t b, bool remainder) {
  if (b == 0) throw UserError("division by zero in " + to_string(e));
  if (b == -1) {
    if (remainder) return 0;
    if (a == std::numeric_limits<std::int64_t>::min()) overflow(e);
    return -a;
  }
  const std::int64_t truncated = a / b;
  const std::int64_t floored = truncated * b != a && ((a < 0) != (b < 0)) ? truncated - 1 : truncated;
  return remainder ? a - floored * b : floored;
}

using Integers = std::map<std::string, std::int64_t>;

std::int64_t call_integer(const Expr& e, const Call& c, const Integers& values) {
  if (c.op == Op::select) return evaluate_integer(c.args[evaluate_integer(c.args[0], values) != 0 ? 1 : 2], values);
  const std::int64_t a = evaluate_integer(c.args[0], values);
  if (c.op == Op::logical_and && a == 0) return 0;
  if (c.op == Op::logical_or && a != 0) return 1;
  const std::int64_t b = c.args.size() > 1 ? evaluate_integer(c.args[1], values) : 0;
  std::int64_t out = 0;
  switch (c.op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &out)) overflow(e);
      return out;
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &out)) overflow(e);
      return out;
    case Op::mul:
      if (__builtin_mul_overflow(a, b, &out)) overflow(e);
      return out;
    case Op::floor_div:
      return divide(e, a, b, false);
    case Op::mod:
      return divide(e, a, b, true);
    case Op::min:
      return a < b ? a : b;
    case Op::max:
      return a > b ? a : b;
    case Op::neg:
    case Op::abs:
      if (a == std::numeric_limits<std::int64_t>::min()) overflow(e);
      return c.op == Op::neg || a < 0 ? -a : a;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::gt:
      return a > b;
    case Op::ge:
      return a >= b;
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::logical_and:
    case Op::logical_or:
      return b != 0;
    case Op::logical_not:
      return a == 0;
    default:
      throw InternalError("not an operation of integers: " + to_string(e));
  }
}

}  // namespace

double apply(Op op, const double* args) {
  const double a = args[0];
  switch (op) {
    case Op::add:
      return a + args[1];
    case Op::sub:
      return a - args[1];
    case Op::mul:
      return a * args[1];
    case Op::div:
      return a / args[1];
    case Op::floor_div:
      return std::floor(a / args[1]);
    case Op::mod:
      return a - std::floor(a / args[1]) * args[1];
    // A NaN on either side is the result, so that one in an input is never lost.
    case Op::min:
      return a < args[1] || std::isnan(a) ? a : args[1];
    case Op::max:
      return a > args[1] || std::isnan(a) ? a : args[1];
    case Op::neg:
      return -a;
    case Op::exp:
      return std::exp(a);
    case Op::exp2:
      return std::exp2(a);
    case Op::log:
      return std::log(a);
    case Op::log2:
      return std::log2(a);
    case Op::tanh:
      return std::tanh(a);
    // Each side of 0 by itself, so that exp never overflows.
    case Op::sigmoid:
      return a >= 0 ? 1 / (1 + std::exp(-a)) : std::exp(a) / (1 + std::exp(a));
    case Op::sqrt:
      return std::sqrt(a);
    case Op::abs:
      return std::abs(a);
    case Op::pow:
      return std::pow(a, args[1]);
    case Op::lt:
      return a < args[1];
    case Op::le:
      return a <= args[1];
    case Op::gt:
      return a > args[1];
    case Op::ge:
      return a >= args[1];
    case Op::eq:
      return a == args[1];
    case Op::ne:
      return a != args[1];
    case Op::logical_and:
      return a != 0 && args[1] != 0;
    case Op::logical_or:
      return a != 0 || args[1] != 0;
    case Op::logical_not:
      return a == 0;
    case Op::count_below:
      throw InternalError("a search has no value without the tensor");
    case Op::select:
      return a != 0 ? args[1] : args[2];
    case Op::safe:
      return a == -std::numeric_limits<double>::infinity() ? 0 : a;
    case Op::absorb:
      return a == 0 ? 0 : a * args[1];
  }
  throw InternalError("unknown operation");
}

std::int64_t evaluate_integer(const Expr& e, const Integers& values) {
  return match(
      e.node(), [](const Integer& i) { return i.value; },
      [&](const Number&) -> std::int64_t { throw InternalError("not an integer: " + to_string(e)); },
      [&](const Variable& v) {
        const auto found = values.find(v.name);
        if (found == values.end()) throw InternalError("no value for " + v.name);
        return found->second;
      },
      [&](const Call& c) { return call_integer(e, c, values); },
      [&](const Read&) -> std::int64_t { throw InternalError("a read has no value here: " + to_string(e)); },
      [&](const Reduce&) -> std::int64_t { throw InternalError("a reduction has no value here: " + to_string(e)); });
}

double evaluate_real(const Expr& e, const std::map<std::string, double>& values) {
  return match(
      e.node(), [](const Integer& i) { return static_cast<double>(i.value); }, [](const Number& n) { return n.value; },
      [&](const Variable& v) {
        const auto found = values.find(v.name);
        if (found == values.end()) throw InternalError("no value for " + v.name);
        return found->second;
      },
      [&](const Call& c) {
        if (c.op == Op::select) return evaluate_real(c.args[evaluate_real(c.args[0], values) != 0 ? 1 : 2], values);
        double args[3] = {0, 0, 0};
        for (std::size_t i = 0; i < c.args.size(); ++i) args[i] = evaluate_real(c.args[i], values);
        return apply(c.op, args);
      },
      [&](const Read&) -> double { throw InternalError("a read has no value here: " + to_string(e)); },
      [&](const Reduce&) -> double { throw InternalError("a reduction has no value here: " + to_string(e)); });
}

}  // namespace astatide
