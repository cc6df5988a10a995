#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>
#include <utility>

#include "compiler/algorithm/lexer.h"
#include "compiler/algorithm/names.h"
#include "compiler/algorithm/source_text.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

// definition = NAME "[" (or ("," or)*)? "]" "=" or ("where" or)?      names of axes, or places of an output
// or         = and ("or" and)*
// and        = not ("and" not)*
// not        = "not" not | comparison
// comparison = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?
// sum        = product (("+" | "-") product)*
// product    = unary (("*" | "/" | "%") unary)*
// unary      = "-" NUMBER | "-" unary | primary
// primary    = NUMBER | "inf" | NAME | NAME "[" or ("," or)* "]" | FUNCTION "(" or ("," or)* ")"
//            | REDUCTION "(" NAME "," or ")" | "(" or ")"
constexpr int kOrStrength = 1;
constexpr int kAndStrength = 2;
constexpr int kNotStrength = 3;
constexpr int kComparisonStrength = 4;
constexpr int kProductStrength = 6;

struct Infix {
  std::string_view text;
  Op op;
  int strength;
};
constexpr std::array kInfix{
    Infix{"or", Op::logical_or, kOrStrength},
    Infix{"and", Op::logical_and, kAndStrength},
    Infix{"<", Op::lt, kComparisonStrength},
    Infix{"<=", Op::le, kComparisonStrength},
    Infix{">", Op::gt, kComparisonStrength},
    Infix{">=", Op::ge, kComparisonStrength},
    Infix{"==", Op::eq, kComparisonStrength},
    Infix{"!=", Op::ne, kComparisonStrength},
    Infix{"+", Op::add, 5},
    Infix{"-", Op::sub, 5},
    Infix{"*", Op::mul, kProductStrength},
    Infix{"/", Op::div, kProductStrength},
    Infix{"%", Op::mod, kProductStrength},
};

constexpr std::array kReductions{Reduction::sum, Reduction::max, Reduction::min, Reduction::softmax,
                                 Reduction::logsumexp};

std::optional<Reduction> find_reduction(const std::string& name) {
  for (const Reduction r : kReductions)
    if (name_of(r) == name) return r;
  return std::nullopt;
}

std::optional<Op> find_function(const std::string& name) {
  if (name == "div") return Op::div;
  if (name == "floor_div") return Op::floor_div;
  for (int i = 0; i <= static_cast<int>(Op::absorb); ++i)
    if (const OpInfo& candidate = info(static_cast<Op>(i)); !candidate.is_operator && candidate.name == name)
      return candidate.op;
  return std::nullopt;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Reduction r : kReductions) names.emplace_back(name_of(r));
  for (int i = 0; i <= static_cast<int>(Op::absorb); ++i)
    if (const OpInfo& candidate = info(static_cast<Op>(i)); !candidate.is_operator && candidate.user)
      names.emplace_back(candidate.name);
  return names;
}

/// An expression and how deep its tree is.
struct Parsed {
  Expr e;
  int depth = 1;
};

class Parser {
 public:
  Parser(const SourceText& source, const NameKinds& names, bool in_index)
      : source_(source), names_(names), tokens_(split_into_tokens(source)), in_index_(in_index) {}

  Expr whole_expression() {
    Expr e = parse_infix(kOrStrength).e;
    if (at_word("where")) fail(peek(), "'where' belongs to a definition: NAME[axes] = expression where condition");
    expect_end();
    return e;
  }

  Func whole_definition() {
    Func func;
    const Token& name = peek();
    func.where = source_.at(name.offset);
    func.name = parse_name("a definition starts with its name: NAME[axes] = expression");
    expect("[", "after the name of a definition: NAME[axes] = expression");
    std::vector<Expr> places;
    bool own = true;  // at its own indices
    while (!at_symbol("]")) {
      if (!places.empty()) expect(",", "between axes");
      const bool lone = peek().kind != Token::Kind::name || at_symbol(",", 1) || at_symbol("]", 1);
      own = own && lone;
      places.push_back(lone ? variable(parse_name("an axis of a definition is a name")) : parse_place());
    }
    expect("]", "after the axes");
    for (const Expr& place : places) add_axes(place, own, func.indices);
    if (!own) func.stored = std::move(places);
    return with_value(std::move(func), "a definition");
  }

  Func whole_update() {
    Func func;
    const Token& name = peek();
    func.where = source_.at(name.offset);
    func.name = parse_name("an update starts with the input that it stores into: INPUT[places] = expression");
    expect("[", "after the name of the input: INPUT[places] = expression");
    while (!at_symbol("]")) {
      if (!func.stored.empty()) expect(",", "between places");
      func.stored.push_back(parse_place());
    }
    expect("]", "after the places");
    for (const Expr& place : func.stored) add_axes_of(place, names_, func.indices);
    return with_value(std::move(func), "an update");
  }

 private:
  /// What follows the brackets.
  Func with_value(Func func, const std::string& what) {
    expect("=", "between the axes and the expression of " + what);
    func.value = parse_infix(kOrStrength).e;
    if (at_word("where")) {
      advance();
      func.where_predicate = parse_infix(kOrStrength).e;
      if (at_word("where")) fail(peek(), what + " has one 'where'; join conditions with 'and'");
    }
    expect_end();
    return func;
  }

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& advance() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_symbol(std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::symbol && peek(ahead).text == text;
  }
  bool at_word(std::string_view text) const { return peek().kind == Token::Kind::name && peek().text == text; }

  [[noreturn]] void fail(const Token& token, std::string message, std::vector<std::string> notes = {}) const {
    throw UserError(source_.at(token.offset), std::move(message), std::move(notes));
  }

  static std::string found(const Token& token) {
    return token.kind == Token::Kind::end ? "the end" : "'" + quoted(token.text) + "'";
  }

  void expect(std::string_view symbol, std::string_view where) {
    if (!at_symbol(symbol))
      fail(peek(), "'" + std::string(symbol) + "' expected " + std::string(where) + ", found " + found(peek()));
    advance();
  }

  void expect_end() const {
    if (peek().kind == Token::Kind::end) return;
    std::vector<std::string> notes;
    if (at_symbol("=")) notes.emplace_back("write == to compare");
    fail(peek(), "an operator or the end expected, found " + found(peek()), std::move(notes));
  }

  std::string parse_name(std::string_view expected) {
    const Token& token = peek();
    if (token.kind != Token::Kind::name) fail(token, std::string(expected) + ", found " + found(token));
    if (const std::string problem = problem_with_name(token.text); !problem.empty())
      fail(token, "'" + quoted(token.text) + "' " + problem);
    advance();
    return token.text;
  }

  /// The place of an output's element along a dimension, such as offset[b] + i.
  Expr parse_place() {
    const bool outside = std::exchange(in_index_, true);
    const Expr e = parse_infix(kOrStrength).e;
    in_index_ = outside;
    return e;
  }

  /// The axes of a definition, in the order in which its places name them; twice only where they are `own`, which is
  /// refused later.
  void add_axes(const Expr& place, bool own, std::vector<std::string>& axes) const {
    if (!own) return add_axes_of(place, names_, axes);
    visit(place, [&](const Expr& e) {
      if (const auto* v = e.as<Variable>()) axes.push_back(v->name);
    });
  }

  Parsed make(const Token& at, ExprNode node, int depth_of_operands) {
    if (depth_of_operands >= kDeepestExpression)
      fail(at, "the expression nests deeper than " + std::to_string(kDeepestExpression));
    const Location where = source_.at(at.offset);
    return {Expr(std::move(node), where.line, where.column), depth_of_operands + 1};
  }

  /// Counts what is open around the expression being read, so that the parser's own stack is bounded too.
  struct Nesting {
    Nesting(const Parser& parser, int& open) : open_(open) {
      if (++open_ > kDeepestExpression) {
        --open_;
        parser.fail(parser.peek(), "the expression nests deeper than " + std::to_string(kDeepestExpression));
      }
    }
    ~Nesting() { --open_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    int& open_;
  };

  const Infix* infix_ahead(int least) const {
    if (peek().kind != Token::Kind::symbol && peek().kind != Token::Kind::name) return nullptr;
    for (const Infix& infix : kInfix)
      if (infix.text == peek().text && infix.strength >= least) return &infix;
    return nullptr;
  }

  Parsed parse_infix(int least) {
    Parsed left = least <= kNotStrength ? parse_not() : parse_unary();
    // `not` took a comparison with it, so that only `and` and `or` can follow.
    bool compared = false;
    while (const Infix* infix = infix_ahead(least)) {
      const Token& op = advance();
      const bool comparison = infix->strength == kComparisonStrength;
      if (comparison && compared)
        fail(op, "comparisons don't chain", {"write a " + op.text + " b and b " + op.text + " c"});
      compared = comparison;
      Parsed right = parse_infix(infix->strength + 1);
      if (comparison && !in_index_) divide_as_integers(left, right);
      const bool slash = infix->op == Op::div;
      const int depth = std::max(left.depth, right.depth);
      left = make(op, Call{slash && in_index_ ? Op::floor_div : infix->op, {left.e, right.e}}, depth);
      if (slash && !in_index_) {
        slashes_.insert(left.e.id());
        kept_.push_back(left.e);
      }
    }
    return left;
  }

  Parsed parse_not() {
    if (!at_word("not")) return parse_infix(kComparisonStrength);
    const Nesting nesting(*this, open_);
    const Token& op = advance();
    const Parsed operand = parse_not();
    return make(op, Call{Op::logical_not, {operand.e}}, operand.depth);
  }

  Parsed parse_unary() {
    if (!at_symbol("-")) return parse_primary();
    const Token& minus = advance();
    if (peek().kind == Token::Kind::integer || peek().kind == Token::Kind::real) return parse_number(&minus);
    if (at_word("inf")) {
      advance();
      return make(minus, Number{-std::numeric_limits<double>::infinity()}, 0);
    }
    const Nesting nesting(*this, open_);
    const Parsed operand = parse_unary();
    return make(minus, Call{Op::neg, {operand.e}}, operand.depth);
  }

  Parsed parse_number(const Token* minus) {
    const Token& token = advance();
    const Token& start = minus ? *minus : token;
    if (token.kind == Token::Kind::real) return make(start, Number{minus ? -token.real : token.real}, 0);
    const std::string digits = (minus ? "-" : "") + token.text;
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
      fail(start, quoted(digits) + " does not fit in a 64-bit integer", {"write 1.0 for a real number"});
    return make(start, Integer{value}, 0);
  }

  Parsed parse_primary() {
    const Token& token = peek();
    switch (token.kind) {
      case Token::Kind::integer:
      case Token::Kind::real:
        return parse_number(nullptr);
      case Token::Kind::name:
        return parse_named();
      case Token::Kind::symbol:
        if (token.text == "(") {
          const Nesting nesting(*this, open_);
          advance();
          Parsed inner = parse_infix(kOrStrength);
          expect(")", "to close '('");
          return inner;
        }
        break;
      case Token::Kind::end:
        break;
    }
    fail(token, "a value expected, found " + found(token));
  }

  Parsed parse_named() {
    const Token& token = peek();
    if (at_symbol("(", 1)) {
      if (const auto reduction = find_reduction(token.text)) return parse_reduction_or_extremum(*reduction);
      if (const auto op = find_function(token.text)) return parse_call(*op);
      const std::string nearest = nearest_name(token.text, function_names());
      fail(token, "unknown function '" + quoted(token.text) + "'",
           {nearest.empty() ? "a tensor is read with brackets: " + quoted(token.text) + "[..]"
                            : "did you mean " + nearest + "?"});
    }
    if (token.text == "inf") {
      advance();
      return make(token, Number{std::numeric_limits<double>::infinity()}, 0);
    }
    std::string name = parse_name("a name");
    if (!at_symbol("[")) return make(token, Variable{std::move(name)}, 0);
    const Nesting nesting(*this, open_);
    advance();
    const bool outside = in_index_;
    in_index_ = true;
    Read read{std::move(name), {}};
    int depth = 0;
    while (!at_symbol("]")) {
      if (!read.indices.empty() && !at_symbol(","))
        fail(peek(), "',' or ']' expected after an index, found " + found(peek()));
      if (!read.indices.empty()) advance();
      Parsed index = parse_infix(kOrStrength);
      depth = std::max(depth, index.depth);
      read.indices.push_back(std::move(index.e));
    }
    advance();
    in_index_ = outside;
    return make(token, std::move(read), depth);
  }

  Parsed parse_call(Op op) {
    const Nesting nesting(*this, open_);
    const Token& token = advance();
    advance();
    std::vector<Expr> args;
    int depth = 0;
    do {
      Parsed arg = parse_infix(kOrStrength);
      depth = std::max(depth, arg.depth);
      args.push_back(std::move(arg.e));
    } while (at_symbol(",") && (advance(), true));
    expect(")", "to close '" + token.text + "('");
    const auto arity = static_cast<std::size_t>(info(op).arity);
    if (args.size() != arity)
      fail(token, token.text + " takes " + std::to_string(arity) + (arity == 1 ? " operand" : " operands") +
                      ", found " + std::to_string(args.size()));
    return make(token, Call{op, std::move(args)}, depth);
  }

  Parsed parse_reduction_or_extremum(Reduction reduction) {
    const Token& token = peek();
    const Token& first = peek(2);
    const bool lone_name = first.kind == Token::Kind::name && at_symbol(",", 3);
    const bool extremum = reduction == Reduction::max || reduction == Reduction::min;
    const Op op = reduction == Reduction::max ? Op::max : Op::min;
    if (!lone_name) {
      if (extremum) return parse_call(op);
      fail(token, token.text + " runs over an axis: " + token.text + "(AXIS, expression)");
    }
    const Nesting nesting(*this, open_);
    advance();
    advance();
    const std::string axis = parse_name("an axis");
    advance();
    const Parsed body = parse_infix(kOrStrength);
    expect(")", "to close '" + token.text + "('");
    // See NameKinds for the rule.
    if (extremum && (names_.values.contains(axis) || !free_variables(body.e).contains(axis))) {
      const Parsed left = make(first, Variable{axis}, 0);
      return make(token, Call{op, {left.e, body.e}}, body.depth);
    }
    return make(token, Reduce{reduction, axis, {body.e}}, body.depth);
  }

  /// The two sides of a comparison, once both are known: `/` was read as real division, and becomes that of integers
  /// where both sides are built from integers, with no real division written as div().
  void divide_as_integers(Parsed& left, Parsed& right) {
    for (const Parsed* side : {&left, &right})
      if (!is_built_from_integers(side->e, names_, true) || has_written_div(side->e)) return;
    left.e = with_floor_div(left.e);
    right.e = with_floor_div(right.e);
  }

  bool has_written_div(const Expr& e) const {
    const auto* c = e.as<Call>();
    if (!c) return false;
    if (c->op == Op::div && !slashes_.contains(e.id())) return true;
    return std::any_of(c->args.begin() + (c->op == Op::select ? 1 : 0), c->args.end(),
                       [&](const Expr& arg) { return has_written_div(arg); });
  }

  static Expr with_floor_div(const Expr& e) {
    const auto* c = e.as<Call>();
    if (!c) return e;
    std::vector<Expr> args = c->args;
    // The condition of a select has its own comparisons, which have been looked at.
    for (std::size_t i = c->op == Op::select ? 1 : 0; i < args.size(); ++i) args[i] = with_floor_div(args[i]);
    if (c->op != Op::div) return with_children(e, std::move(args));
    return Expr(ExprNode(Call{Op::floor_div, std::move(args)}), e.line(), e.column());
  }

  const SourceText& source_;
  const NameKinds& names_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool in_index_;
  int open_ = 0;
  /// Real divisions that were written `/`; kept alive so that ids stay theirs.
  std::unordered_set<const void*> slashes_;
  std::vector<Expr> kept_;
};

}  // namespace

Expr parse_expr(const SourceText& source, const NameKinds& names, bool in_index) {
  return Parser(source, names, in_index).whole_expression();
}

Func parse_definition(const SourceText& source, const NameKinds& names) {
  return Parser(source, names, false).whole_definition();
}

Func parse_update(const SourceText& source, const NameKinds& names) {
  return Parser(source, names, false).whole_update();
}

Expr parse_expr(const std::string& text, const Location& at, bool in_index) {
  return parse_expr(SourceText(text, at), {}, in_index);
}

Func parse_definition(const std::string& text, const Location& at) {
  return parse_definition(SourceText(text, at), {});
}

}  // namespace astatide
