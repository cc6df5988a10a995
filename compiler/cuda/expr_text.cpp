#include "compiler/cuda/expr_text.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/support/contains.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide::cuda {
namespace {

// Precedences of C++, higher binds tighter.
constexpr int kAtom = 100, kUnary = 15, kMul = 13, kAdd = 12, kRelation = 9, kEquality = 8, kAnd = 5, kOr = 4,
              kSelect = 3;

std::string wrap(const Text& t, int at_least) { return t.precedence < at_least ? "(" + t.text + ")" : t.text; }

Text as_real(Text t) {
  if (t.type == ValueType::real) return t;
  if (t.type == ValueType::boolean) return {"to_float(" + t.text + ")", ValueType::real, kAtom};
  const bool literal = !t.text.empty() && t.text.find_first_not_of("-0123456789") == std::string::npos;
  if (literal) return {t.text + ".0f", ValueType::real, t.text.front() == '-' ? kUnary : kAtom};
  return {"to_float(" + t.text + ")", ValueType::real, kAtom};
}

bool both_integers(const Text& a, const Text& b) {
  return a.type == ValueType::integer && b.type == ValueType::integer;
}

bool is_non_negative(const Expr& e, const TextScope& scope) {
  return match(
      e.node(), [](const Number& n) { return n.value >= 0; }, [](const Integer& n) { return n.value >= 0; },
      [&](const Variable& v) { return scope.non_negative && scope.non_negative(v.name); },
      [&](const Call& c) {
        switch (c.op) {
          case Op::add:
          case Op::mul:
          case Op::floor_div:
          case Op::min:
            return is_non_negative(c.args[0], scope) && is_non_negative(c.args[1], scope);
          case Op::max:
            return is_non_negative(c.args[0], scope) || is_non_negative(c.args[1], scope);
          case Op::count_below:
            return true;
          case Op::mod:
            return is_non_negative(c.args[1], scope);
          case Op::select:
            return is_non_negative(c.args[1], scope) && is_non_negative(c.args[2], scope);
          default:
            return false;
        }
      },
      [](const Read&) { return false; }, [](const Reduce&) { return false; });
}

class Writer {
 public:
  explicit Writer(const TextScope& scope) : scope_(scope) {}

  Text write(const Expr& e) const {
    return match(
        e.node(),
        [](const Number& n) {
          return Text{float_literal(n.value), ValueType::real, n.value < 0 ? kUnary : kAtom};
        },
        [](const Integer& n) {
          return Text{std::to_string(n.value), ValueType::integer, n.value < 0 ? kUnary : kAtom};
        },
        [&](const Variable& v) { return scope_.variable(v.name); }, [&](const Call& c) { return write_call(c); },
        [&](const Read& r) {
          std::vector<std::string> indices;
          for (const Expr& index : r.indices) indices.push_back(integer_text(index, scope_));
          return scope_.read(r.tensor, indices);
        },
        [](const Reduce&) -> Text { throw InternalError("a reduction reached the emitter"); });
  }

 private:
  Text infix(const Call& c, const char* op, int precedence) const {
    Text a = write(c.args[0]), b = write(c.args[1]);
    const bool integers = both_integers(a, b);
    if (!integers) a = as_real(a), b = as_real(b);
    // The right operand of - and / needs parentheses at equal precedence.
    Text out{fmt::format("{} {} {}", wrap(a, precedence), op, wrap(b, precedence + 1)),
             integers ? ValueType::integer : ValueType::real, precedence, integers && (a.wide || b.wide)};
    // Coordinates and extents have 32 bits, their products need 64: head * kv_heads / heads.
    if (integers && c.op == Op::mul && !out.wide && !c.args[0].as<Integer>() && !c.args[1].as<Integer>()) {
      out.text = fmt::format("static_cast<long long>({}) * {}", a.text, wrap(b, precedence + 1));
      out.wide = true;
    }
    return out;
  }

  Text comparison(const Call& c, const char* op, int precedence) const {
    Text t = infix(c, op, precedence);
    t.type = ValueType::boolean;
    return t;
  }

  Text function(const Call& c, const std::string& name) const {
    std::string args;
    for (const Expr& arg : c.args) args += (args.empty() ? "" : ", ") + as_real(write(arg)).text;
    return {fmt::format("{}({})", name, args), ValueType::real, kAtom};
  }

  Text exponential(const Call& c, const std::string& name) const {
    if (scope_.polynomial.empty()) return function(c, "fast_" + name);
    return {fmt::format("{}_by({}, {})", name, scope_.polynomial, as_real(write(c.args[0])).text), ValueType::real,
            kAtom};
  }

  Text extremum(const Call& c, const char* integer, const char* real) const {
    const Text a = write(c.args[0]), b = write(c.args[1]);
    if (both_integers(a, b)) {
      const bool wide = a.wide || b.wide;
      const auto widened = [&](const Text& t) {
        return wide && !t.wide ? "static_cast<long long>(" + t.text + ")" : t.text;
      };
      return {fmt::format("{}({}, {})", integer, widened(a), widened(b)), ValueType::integer, kAtom, wide};
    }
    return {fmt::format("{}({}, {})", real, as_real(a).text, as_real(b).text), ValueType::real, kAtom};
  }

  Text integer_division(const Call& c, const char* op, const char* rounding_down) const {
    const Text a = write(c.args[0]), b = write(c.args[1]);
    if (!both_integers(a, b)) throw InternalError("division of integers over reals");
    if (is_non_negative(c.args[0], scope_))
      return {fmt::format("{} {} {}", wrap(a, kMul), op, wrap(b, kMul + 1)), ValueType::integer, kMul,
              a.wide || b.wide};
    return {fmt::format("{}({}, {})", rounding_down, a.text, b.text), ValueType::integer, kAtom, a.wide || b.wide};
  }

  Text search(const Call& c) const {
    const Read& first = *c.args[0].as<Read>();
    std::vector<std::string> indices;
    for (const Expr& index : first.indices) indices.push_back(integer_text(index, scope_));
    return {fmt::format("count_below({}, {}, {})", scope_.row(first.tensor, indices), narrow_text(c.args[1], scope_),
                        integer_text(c.args[2], scope_)),
            ValueType::integer, kAtom};
  }

  Text write_call(const Call& c) const {
    switch (c.op) {
      case Op::count_below:
        return search(c);
      case Op::add:
        return infix(c, "+", kAdd);
      case Op::sub:
        return infix(c, "-", kAdd);
      case Op::mul:
        return infix(c, "*", kMul);
      case Op::div: {
        const Text a = as_real(write(c.args[0])), b = as_real(write(c.args[1]));
        if (c.args[0].is_constant(1)) return {fmt::format("reciprocal({})", b.text), ValueType::real, kAtom};
        return {fmt::format("{} / {}", wrap(a, kMul), wrap(b, kMul + 1)), ValueType::real, kMul};
      }
      case Op::floor_div:
        return integer_division(c, "/", "floor_div");
      case Op::mod:
        return integer_division(c, "%", "floor_mod");
      case Op::min:
        return extremum(c, "min", "fminf");
      case Op::max:
        return extremum(c, "max", "fmaxf");
      case Op::neg: {
        const Text a = write(c.args[0]);
        return {"-" + wrap(a, kUnary + 1), a.type, kUnary, a.wide};
      }
      case Op::exp:
        return exponential(c, "exp");
      case Op::exp2:
        return exponential(c, "exp2");
      case Op::log:
        return function(c, "fast_log");
      case Op::log2:
        return function(c, "fast_log2");
      case Op::tanh:
        return function(c, contains(scope_.approximate, Op::tanh) ? "fast_tanh" : "tanhf");
      case Op::sigmoid:
        return function(c, "sigmoid");
      case Op::sqrt:
        return function(c, "sqrtf");
      case Op::pow:
        return function(c, "powf");
      case Op::abs: {
        const Text a = write(c.args[0]);
        if (a.type == ValueType::integer) return {"abs(" + a.text + ")", ValueType::integer, kAtom, a.wide};
        return function(c, "fabsf");
      }
      case Op::lt:
        return comparison(c, "<", kRelation);
      case Op::le:
        return comparison(c, "<=", kRelation);
      case Op::gt:
        return comparison(c, ">", kRelation);
      case Op::ge:
        return comparison(c, ">=", kRelation);
      case Op::eq:
        return comparison(c, "==", kEquality);
      case Op::ne:
        return comparison(c, "!=", kEquality);
      case Op::logical_and:
        return {fmt::format("{} && {}", wrap(write(c.args[0]), kAnd), wrap(write(c.args[1]), kAnd)), ValueType::boolean,
                kAnd};
      case Op::logical_or:
        // Parentheses around && inside ||: g++ and people ask for them.
        return {fmt::format("{} || {}", wrap(write(c.args[0]), kAnd + 1), wrap(write(c.args[1]), kAnd + 1)),
                ValueType::boolean, kOr};
      case Op::logical_not:
        return {"!" + wrap(write(c.args[0]), kUnary), ValueType::boolean, kUnary};
      case Op::select: {
        const Text condition = write(c.args[0]);
        Text a = write(c.args[1]), b = write(c.args[2]);
        const bool integers = both_integers(a, b);
        if (!integers && a.type != ValueType::boolean) a = as_real(a), b = as_real(b);
        return {fmt::format("{} ? {} : {}", wrap(condition, kSelect + 1), wrap(a, kSelect + 1), wrap(b, kSelect + 1)),
                a.type, kSelect};
      }
      case Op::safe:
        return function(c, "safe");
      case Op::absorb:
        return function(c, "absorb");
    }
    throw InternalError("an operation has no text");
  }

  const TextScope& scope_;
};

}  // namespace

std::string float_literal(double value) {
  const float f = static_cast<float>(value);
  if (std::isnan(f)) return "__int_as_float(0x7fffffff)";
  if (std::isinf(f)) return f > 0 ? "kInfinity" : "-kInfinity";
  std::string text = fmt::format("{}", f);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

Text text_of(const Expr& e, const TextScope& scope) { return Writer(scope).write(e); }

std::string real_text(const Expr& e, const TextScope& scope) { return as_real(text_of(e, scope)).text; }

namespace {

Text integer_of(const Expr& e, const TextScope& scope) {
  Text t = text_of(e, scope);
  if (t.type != ValueType::integer) throw InternalError("an index is not an integer: " + to_string(e));
  return t;
}

}  // namespace

std::string integer_text(const Expr& e, const TextScope& scope) { return integer_of(e, scope).text; }

std::string limit_text(const Expr& e, const TextScope& scope) { return wrap(integer_of(e, scope), kAdd); }

std::string narrow_text(const Expr& e, const TextScope& scope) {
  const Text t = text_of(e, scope);
  return t.wide ? "static_cast<int>(" + t.text + ")" : t.text;
}

std::string condition_text(const Expr& e, const TextScope& scope) {
  const Text t = text_of(e, scope);
  if (t.type == ValueType::boolean) return t.text;
  return wrap(t, kEquality) + " != 0";
}

}  // namespace astatide::cuda
