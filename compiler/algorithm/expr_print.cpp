#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/algorithm/expr.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

// Binding strength of the grammar, weakest first; see parse_expr.cpp.
enum Strength { kOr = 1, kAnd, kNot, kComparison, kSum, kProduct, kUnary, kPrimary };

/// What `/` means where it stands: in brackets (index), in a comparison of integers (integer), in one that would be of
/// integers but for a real division, so that both kinds are written as functions (neither), or elsewhere (real).
enum class Slash { index, integer, neither, real };

Strength strength_of(Op op) {
  switch (op) {
    case Op::logical_or:
      return kOr;
    case Op::logical_and:
      return kAnd;
    case Op::logical_not:
      return kNot;
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::eq:
    case Op::ne:
      return kComparison;
    case Op::add:
    case Op::sub:
      return kSum;
    case Op::mul:
    case Op::div:
    case Op::floor_div:
    case Op::mod:
      return kProduct;
    case Op::neg:
      return kUnary;
    default:
      return kPrimary;
  }
}

std::string print_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // 2.0, not 2, which would be an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  explicit Printer(const NameKinds& names) : names_(names) {}

  std::string print(const Expr& e, Slash slash, Strength least = kOr) const {
    return match(
        e.node(), [](const Number& n) { return print_number(n.value); },
        [](const Integer& i) { return std::to_string(i.value); }, [](const Variable& v) { return v.name; },
        [&](const Call& c) { return print_call(c, slash, least); },
        [&](const Read& r) { return r.tensor + "[" + print_indices(r.indices) + "]"; },
        [&](const Reduce& r) {
          return std::string(name_of(r.op)) + "(" + r.axis + ", " + print(r.body.front(), slash) + ")";
        });
  }

 private:
  std::string list(const std::vector<Expr>& items, Slash slash, const char* separator) const {
    std::string out;
    for (const Expr& item : items) out += (out.empty() ? "" : separator) + print(item, slash);
    return out;
  }

  std::string print_indices(const std::vector<Expr>& indices) const {
    const bool plain =
        std::all_of(indices.begin(), indices.end(), [](const Expr& e) { return e.as<Variable>() || e.as<Integer>(); });
    return list(indices, Slash::index, plain ? "," : ", ");
  }

  std::string print_function(const Call& c, std::string_view name, Slash slash) const {
    // max(j, ..) with an axis that the rest depends on would be read as a reduction.
    const auto* first = c.args[0].as<Variable>();
    if ((c.op == Op::max || c.op == Op::min) && first && free_variables(c.args[1]).contains(first->name))
      return std::string(name) + "((" + first->name + "), " + print(c.args[1], slash) + ")";
    if (c.op == Op::select && slash != Slash::index)
      return "select(" + print(c.args[0], Slash::real) + ", " + print(c.args[1], slash) + ", " +
             print(c.args[2], slash) + ")";
    return std::string(name) + "(" + list(c.args, slash, ", ") + ")";
  }

  Slash slash_of_comparison(const Call& c) const {
    for (const bool overlook : {false, true})
      if (is_built_from_integers(c.args[0], names_, overlook) && is_built_from_integers(c.args[1], names_, overlook))
        return overlook ? Slash::neither : Slash::integer;
    return Slash::real;
  }

  std::string print_call(const Call& c, Slash slash, Strength least) const {
    if (c.op == Op::div && slash != Slash::real) return print_function(c, "div", slash);
    const bool slash_is_floor = slash == Slash::index || slash == Slash::integer;
    if (c.op == Op::floor_div && !slash_is_floor) return print_function(c, "floor_div", slash);
    if (!info(c.op).is_operator) return print_function(c, info(c.op).name, slash);
    const Strength own = strength_of(c.op);
    std::string out;
    if (c.op == Op::neg) {
      // -(2) is the negation of 2; -2 is a literal.
      const bool literal = c.args[0].as<Number>() || c.args[0].as<Integer>();
      out = literal ? "-(" + print(c.args[0], slash) + ")" : "-" + print(c.args[0], slash, kUnary);
    } else if (c.op == Op::logical_not) {
      out = "not " + print(c.args[0], slash, kNot);
    } else {
      const bool comparison = own == kComparison;
      const Slash inner = comparison && slash != Slash::index ? slash_of_comparison(c) : slash;
      // Operators of one strength group to the left; comparisons don't group at all.
      const Strength left = comparison ? kSum : own;
      const auto right = static_cast<Strength>(own + 1);
      const bool tight = own >= (slash == Slash::index ? kSum : kProduct) && slash_is_floor;
      const std::string_view gap = tight ? "" : " ";
      out = print(c.args[0], inner, left);
      out.append(gap).append(info(c.op).name).append(gap);
      out += print(c.args[1], inner, right);
    }
    return own < least ? "(" + out + ")" : out;
  }

  const NameKinds& names_;
};

}  // namespace

std::string print_expr(const Expr& e, const NameKinds& names, bool in_index) {
  return Printer(names).print(e, in_index ? Slash::index : Slash::real);
}

std::string to_string(const Expr& e) { return print_expr(e, {}); }

}  // namespace astatide
