#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

// Scalar expressions, one type for all stages: definitions of an algorithm, recurrences, and the index and element
// expressions of a tile program.
//
//   expr = NUMBER | INTEGER | NAME | op(expr, ..) | TENSOR[expr, ..] | reduction(AXIS, expr)
//
// What a NAME means depends on the stage: an axis, an extent or a scalar of an algorithm; a tile, a coordinate, a loop
// variable or a parameter of a tile program. Reads and reductions over an axis occur in algorithms; a tile program
// reads tensors element by element in `map` and in index expressions, and has no reductions in expressions.

enum class Op : std::uint8_t {
  // arithmetic; `div` is real division, `floor_div` and `mod` are those of integers, rounding down
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  min,
  max,
  neg,
  exp,
  exp2,
  log,
  log2,
  tanh,
  sigmoid,
  sqrt,
  abs,
  pow,
  // predicates
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  logical_and,
  logical_or,
  logical_not,
  // select(condition, a, b); only the chosen side is evaluated
  select,
  // count_below(T[.., first], n, x): how many of the n elements of T from that one on, which do not decrease along its
  // last dimension, are less than x
  count_below,
  // x, or 0 where x is minus infinity: a reference that stands in an exponent of a row with no visible element
  safe,
  // 0 where the first factor is 0, else the product: 0 absorbs even an infinite second factor
  absorb,
};

struct OpInfo {
  Op op;
  std::string_view name;  // spelling: of a function ("exp"), or of an operator ("+")
  int arity;
  bool is_operator;  // written between its operands
  bool user;         // can be written in an algorithm file
};
/// Name, arity and kind of every operation; the parser, the printers and the emitters share this table.
const OpInfo& info(Op op);

enum class Reduction : std::uint8_t { sum, max, min, softmax, logsumexp };
std::string_view name_of(Reduction reduction);
/// The neutral element: 0, -inf, +inf. Only for sum, max and min.
double unit_of(Reduction reduction);

class Expr;

struct Number {
  double value;
};
struct Integer {
  std::int64_t value;
};
struct Variable {
  std::string name;
};
struct Call {
  Op op;
  std::vector<Expr> args;
};
/// An element of an input, of a defined function, or, in a tile program, of a tensor in global memory.
struct Read {
  std::string tensor;
  std::vector<Expr> indices;
};
/// `softmax` and `logsumexp` are abbreviations; see expand_definitions.
struct Reduce {
  Reduction op;
  std::string axis;
  std::vector<Expr> body;
};

using ExprNode = std::variant<Number, Integer, Variable, Call, Read, Reduce>;

/// An immutable expression. Copies share structure. Equality is structural and ignores places.
class Expr {
 public:
  Expr() : Expr(0) {}
  Expr(double value);        // NOLINT(google-explicit-constructor): literals in formulas
  Expr(int value);           // NOLINT(google-explicit-constructor)
  Expr(std::int64_t value);  // NOLINT(google-explicit-constructor)
  explicit Expr(ExprNode node, int line = 0, int column = 0);

  const ExprNode& node() const { return data_->node; }
  /// Where it was written; 0 when it was made by the compiler.
  int line() const { return data_->line; }
  int column() const { return data_->column; }
  /// Number of nodes counted as a tree, saturating: bounds what a printer or an emitter would write.
  std::uint32_t tree_size() const { return data_->tree_size; }
  /// Identity of the shared node, as a key of memo tables: equal ids mean equal expressions, not the reverse.
  const void* id() const { return data_.get(); }

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_->node);
  }
  bool is_call(Op op) const;
  /// A number or an integer of exactly this value.
  bool is_constant(double value) const;

  friend bool operator==(const Expr& a, const Expr& b);
  /// A total order on structure, for use as a key.
  friend bool operator<(const Expr& a, const Expr& b);

 private:
  struct Data {
    ExprNode node;
    int line;
    int column;
    std::uint32_t tree_size;
  };
  std::shared_ptr<const Data> data_;
};

Expr variable(std::string name);
Expr call(Op op, std::vector<Expr> args);
Expr read(std::string tensor, std::vector<Expr> indices);
Expr reduce(Reduction op, std::string axis, Expr body);
/// Two results of one reduction in one: their sum, maximum or minimum. Only for those.
Expr merged(Reduction op, const Expr& a, const Expr& b);

// Formulas. The operators fold constants (x + 0, x * 1, 2 + 3) and nothing else.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);  // real division
Expr operator-(const Expr& a);
Expr floor_div(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
/// ceil(a / b) of integers, b > 0.
Expr ceil_div(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, int) = delete;  // would be the order of keys, not a predicate: use less(), less_equal()
Expr less(const Expr& a, const Expr& b);
Expr less_equal(const Expr& a, const Expr& b);
Expr equal(const Expr& a, const Expr& b);
Expr logical_and(const Expr& a, const Expr& b);
Expr exp(const Expr& a);
Expr log(const Expr& a);
Expr count_below(const Expr& first, const Expr& count, const Expr& value);
Expr select(const Expr& condition, const Expr& a, const Expr& b);
/// The argument of a `not`, else the `not` of the predicate.
Expr negation(const Expr& predicate);
Expr safe(const Expr& a);
Expr absorb(const Expr& factor, const Expr& other);

/// All direct operands: arguments, indices, body.
std::vector<Expr> children(const Expr& e);
/// The same node over other operands (as many as children() gives); keeps the place.
Expr with_children(const Expr& e, std::vector<Expr> operands);
/// Rewrites bottom up; `f` returns the replacement, or its argument unchanged. Shared nodes are rewritten once.
Expr transform(const Expr& e, const std::function<Expr(const Expr&)>& f);
/// Replaces free variables; an axis bound by a reduction inside is left alone, and renamed (j becomes j_1) where a
/// value put in would be captured by it. The axis of a softmax is free: its value depends on it.
Expr substitute(const Expr& e, const std::map<std::string, Expr>& values);
/// Calls `f` on every node, operands first.
void visit(const Expr& e, const std::function<void(const Expr&)>& f);
/// Free variables: not those bound by a reduction around them.
std::set<std::string> free_variables(const Expr& e);
/// Tensors and functions that are read.
std::set<std::string> tensors_read(const Expr& e);
/// Whether a tensor is read at an index that varies with the variable.
bool reads_at(const Expr& e, const std::string& variable);
/// Whether an exponential is computed, of any base.
bool has_exponential(const Expr& e);
/// softmax(j, x) as exp(x - max(j, x)) / sum(j, exp(x - max(j, x))), logsumexp(j, x) as max(j, x) + log(sum(j, exp(x -
/// max(j, x)))).
Expr expand_definitions(const Expr& e);

/// The text that the parser of algorithms reads back as an equal expression.
std::string to_string(const Expr& e);

/// Evaluates an integer expression over named values, for extents, origins and grids. Throws InternalError on an
/// unbound name or an operation that is not one of integers, UserError where the value leaves 64 bits.
std::int64_t evaluate_integer(const Expr& e, const std::map<std::string, std::int64_t>& values);
/// Evaluates a real expression without reads and reductions.
double evaluate_real(const Expr& e, const std::map<std::string, double>& values);
/// One operation on doubles: the meaning that all evaluators share.
double apply(Op op, const double* args);

}  // namespace astatide
