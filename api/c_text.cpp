#include "api/c_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

// Precedences of C, higher binds tighter.
constexpr int kAtom = 100, kMul = 13, kAdd = 12, kRelation = 9, kEquality = 8, kAnd = 5, kOr = 4, kSelect = 3;
// Beyond this a double doesn't tell whether 64 bits hold a value.
constexpr double kSurelyHeld = 0x1p62;

struct Part {
  std::string text;
  double least = 0, most = 0;
  int precedence = kAtom;

  std::string in(int at_least) const { return precedence < at_least ? "(" + text + ")" : text; }
};

class IntegerWriter {
 public:
  IntegerWriter(const CNames& names, bool& uses_fault) : names_(names), uses_fault_(uses_fault) {}

  Part write(const Expr& e) const {
    // Constants are not left to C, whose plain numbers have 32 bits.
    if (e.as<Call>() != nullptr && free_variables(e).empty()) return integer(evaluate_integer(e, {}));
    return match(
        e.node(), [](const Integer& n) { return integer(n.value); },
        [&](const Variable& v) {
          const CName name = names_(v.name);
          return Part{name.text, name.least, name.most};
        },
        [&](const Call& c) { return call(c); },
        [&](const Number&) -> Part { throw InternalError("not an integer: " + to_string(e)); },
        [&](const Read&) -> Part { throw InternalError("a read has no value here: " + to_string(e)); },
        [&](const Reduce&) -> Part { throw InternalError("a reduction has no value here: " + to_string(e)); });
  }

 private:
  static Part integer(std::int64_t n) {
    const auto value = static_cast<double>(n);
    if (n == INT64_MIN) return {"INT64_MIN", value, value};
    if (n < 0) return {fmt::format("(-INT64_C({}))", -n), value, value};
    return {n > INT32_MAX ? fmt::format("INT64_C({})", n) : std::to_string(n), value, value};
  }

  Part infix(const Part& a, const char* op, const Part& b, int precedence, const char* checked, double least,
             double most) const {
    if (least > -kSurelyHeld && most < kSurelyHeld)
      return {fmt::format("{} {} {}", a.in(precedence), op, b.in(precedence + 1)), least, most, precedence};
    return {fault_call(checked, a, b), std::max(least, -0x1p63), std::min(most, 0x1p63)};
  }

  std::string fault_call(const char* function, const Part& a, const Part& b) const {
    uses_fault_ = true;
    return fmt::format("{}({}, {}, &fault)", function, a.text, b.text);
  }

  static Part test(const Part& a, const char* op, const Part& b, int precedence) {
    return {fmt::format("{} {} {}", a.in(precedence + 1), op, b.in(precedence + 1)), 0, 1, precedence};
  }

  Part division(const Part& a, const Part& b, bool remainder) const {
    const double bound = std::max(std::fabs(a.least), std::fabs(a.most));
    if (a.least >= 0 && b.least > 0)
      return {fmt::format("{} {} {}", a.in(kMul), remainder ? "%" : "/", b.in(kMul + 1)), 0,
              remainder ? std::min(a.most, b.most - 1) : std::floor(a.most / b.least), kMul};
    const double most = remainder ? std::max(std::fabs(b.least), std::fabs(b.most)) : bound + 1;
    return {fault_call(remainder ? "astatide_mod" : "astatide_div", a, b), -most, most};
  }

  Part call(const Call& c) const {
    const Part a = write(c.args[0]);
    if (c.op == Op::select) {
      const Part x = write(c.args[1]), y = write(c.args[2]);
      return {fmt::format("{} ? {} : {}", a.in(kSelect + 1), x.in(kSelect + 1), y.in(kSelect)),
              std::min(x.least, y.least), std::max(x.most, y.most), kSelect};
    }
    if (c.op == Op::logical_not) return {fmt::format("!{}", a.in(kAtom)), 0, 1};
    if (c.op == Op::neg) return infix(integer(0), "-", a, kAdd, "astatide_sub", -a.most, -a.least);
    if (c.op == Op::abs) {
      uses_fault_ = true;
      return {fmt::format("astatide_abs({}, &fault)", a.text), 0, std::max(std::fabs(a.least), std::fabs(a.most))};
    }
    const Part b = write(c.args[1]);
    switch (c.op) {
      case Op::add:
        return infix(a, "+", b, kAdd, "astatide_add", a.least + b.least, a.most + b.most);
      case Op::sub:
        return infix(a, "-", b, kAdd, "astatide_sub", a.least - b.most, a.most - b.least);
      case Op::mul: {
        const auto [least, most] =
            std::minmax({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
        return infix(a, "*", b, kMul, "astatide_mul", least, most);
      }
      case Op::floor_div:
        return division(a, b, false);
      case Op::mod:
        return division(a, b, true);
      case Op::min:
        return {fmt::format("astatide_min({}, {})", a.text, b.text), std::min(a.least, b.least),
                std::min(a.most, b.most)};
      case Op::max:
        return {fmt::format("astatide_max({}, {})", a.text, b.text), std::max(a.least, b.least),
                std::max(a.most, b.most)};
      case Op::lt:
        return test(a, "<", b, kRelation);
      case Op::le:
        return test(a, "<=", b, kRelation);
      case Op::gt:
        return test(a, ">", b, kRelation);
      case Op::ge:
        return test(a, ">=", b, kRelation);
      case Op::eq:
        return test(a, "==", b, kEquality);
      case Op::ne:
        return test(a, "!=", b, kEquality);
      case Op::logical_and:
        return test(a, "&&", b, kAnd);
      case Op::logical_or:
        return test(a, "||", b, kOr);
      default:
        throw InternalError(fmt::format("no operation of integers: {}", info(c.op).name));
    }
  }

  const CNames& names_;
  bool& uses_fault_;
};

/// Calls are functions of C's library or of astatide_launch_rules.h, operators keep the order that the expression has.
class RealWriter {
 public:
  explicit RealWriter(const std::function<std::string(const std::string&)>& names) : names_(names) {}

  std::string write(const Expr& e) const {
    return match(
        e.node(), [](const Integer& n) { return fmt::format("{}.0", n.value); },
        [](const Number& n) { return number(n.value); }, [&](const Variable& v) { return names_(v.name); },
        [&](const Call& c) { return call(c); },
        [&](const Read&) -> std::string { throw InternalError("a read has no value here: " + to_string(e)); },
        [&](const Reduce&) -> std::string { throw InternalError("a reduction has no value here: " + to_string(e)); });
  }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "(double)NAN";
    if (std::isinf(value)) return value < 0 ? "(-HUGE_VAL)" : "HUGE_VAL";
    const std::string text = fmt::format("{:a}", value);
    return value < 0 ? "(" + text + ")" : text;
  }

  std::string call(const Call& c) const {
    std::vector<std::string> args;
    for (const Expr& arg : c.args) args.push_back(write(arg));
    switch (c.op) {
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div:
        return fmt::format("({} {} {})", args[0], info(c.op).name, args[1]);
      // Truth is an int in C.
      case Op::lt:
      case Op::le:
      case Op::gt:
      case Op::ge:
        return fmt::format("(double)({} {} {})", args[0], info(c.op).name, args[1]);
      case Op::eq:
        return fmt::format("(double)({} == {})", args[0], args[1]);
      case Op::ne:
        return fmt::format("(double)({} != {})", args[0], args[1]);
      case Op::floor_div:
        return fmt::format("floor({} / {})", args[0], args[1]);
      case Op::mod:
        return fmt::format("astatide_real_mod({}, {})", args[0], args[1]);
      case Op::min:
        return fmt::format("astatide_real_min({}, {})", args[0], args[1]);
      case Op::max:
        return fmt::format("astatide_real_max({}, {})", args[0], args[1]);
      case Op::neg:
        return fmt::format("(-{})", args[0]);
      case Op::abs:
        return fmt::format("fabs({})", args[0]);
      case Op::exp:
      case Op::exp2:
      case Op::log:
      case Op::log2:
      case Op::tanh:
      case Op::sqrt:
      case Op::pow:
        return fmt::format("{}({})", info(c.op).name, fmt::join(args, ", "));
      case Op::sigmoid:
        return fmt::format("astatide_sigmoid({})", args[0]);
      case Op::logical_and:
        return fmt::format("(double)({} != 0 && {} != 0)", args[0], args[1]);
      case Op::logical_or:
        return fmt::format("(double)({} != 0 || {} != 0)", args[0], args[1]);
      case Op::logical_not:
        return fmt::format("(double)({} == 0)", args[0]);
      case Op::select:
        return fmt::format("({} != 0 ? {} : {})", args[0], args[1], args[2]);
      case Op::safe:
        return fmt::format("astatide_safe({})", args[0]);
      case Op::absorb:
        return fmt::format("astatide_absorb({}, {})", args[0], args[1]);
      case Op::count_below:
        break;  // of integers in tensors, which no scalar and no grid reads
    }
    throw InternalError("unknown operation");
  }

  const std::function<std::string(const std::string&)>& names_;
};

/// The function that IndexRanges uses for an operation; nothing is known of others.
const char* range_function(Op op) {
  switch (op) {
    case Op::select:
      return "astatide_range_either";
    case Op::min:
      return "astatide_range_min";
    case Op::max:
      return "astatide_range_max";
    case Op::mod:
      return "astatide_range_mod";
    case Op::neg:
      return "astatide_range_neg";
    case Op::abs:
      return "astatide_range_abs";
    case Op::add:
      return "astatide_range_add";
    case Op::sub:
      return "astatide_range_sub";
    case Op::mul:
      return "astatide_range_mul";
    case Op::floor_div:
      return "astatide_range_floor_div";
    default:
      return nullptr;
  }
}

}  // namespace

std::string integer_in_c(const Expr& e, const CNames& names, bool& uses_fault) {
  return IntegerWriter(names, uses_fault).write(e).text;
}

std::string real_in_c(const Expr& e, const std::function<std::string(const std::string& name)>& names) {
  return RealWriter(names).write(e);
}

std::string range_in_c(const Expr& e, const std::function<std::string(const std::string& name)>& names) {
  if (const auto* n = e.as<Integer>()) return fmt::format("astatide_of({0}.0, {0}.0)", n->value);
  if (const auto* v = e.as<Variable>()) return names(v->name);
  if (e.as<Read>() != nullptr) throw InternalError("a read has no value here: " + to_string(e));
  const auto* c = e.as<Call>();
  const char* function = c == nullptr ? nullptr : range_function(c->op);
  if (function == nullptr) return "astatide_unknown()";
  std::vector<std::string> args;
  for (std::size_t n = c->op == Op::select ? 1 : 0; n < c->args.size(); ++n)
    args.push_back(range_in_c(c->args[n], names));
  return fmt::format("{}({})", function, fmt::join(args, ", "));
}

std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    const bool plain = letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\' && letter != '?';
    out += plain ? std::string(1, letter) : fmt::format("\\{:03o}", static_cast<unsigned char>(letter));
  }
  return out + "\"";
}

}  // namespace astatide
