#include "compiler/algorithm/check_definition.h"

#include <algorithm>
#include <cmath>

#include "compiler/algorithm/names.h"
#include "compiler/support/contains.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

/// `unknown` is the type of what has been called wrong already.
enum class Type { integer, real, boolean, unknown };

std::string_view describe(Type type) {
  switch (type) {
    case Type::integer:
      return "an integer";
    case Type::real:
      return "a real number";
    case Type::boolean:
      return "a condition";
    case Type::unknown:
      break;
  }
  return "unknown";
}

bool is_number(Type type) { return type != Type::boolean; }

Type type_of_input(const Input& input) {
  if (!input.dtype || is_floating(*input.dtype)) return Type::real;
  return *input.dtype == ScalarType::boolean ? Type::boolean : Type::integer;
}

/// Where an expression may read tensors and reduce.
enum class Place { value, predicate, index, extents_only };

class TypeChecker {
 public:
  TypeChecker(Scope& scope, Diagnostics& errors, Location where)
      : scope_(scope), errors_(errors), where_(std::move(where)) {}

  std::vector<std::string> axes;
  /// Names that stand for scalars here; all of them in a definition.
  const std::set<std::string>* scalars = nullptr;
  std::string func;
  bool guarded = false;

  Type type_of(const Expr& e, Place place) {
    return match(
        e.node(), [&](const Integer&) { return Type::integer; },
        [&](const Number& n) {
          if (std::isnan(n.value)) error(e, "a definition can't hold a NaN");
          return Type::real;
        },
        [&](const Variable& v) { return type_of_variable(e, v.name); },
        [&](const Call& c) { return type_of_call(e, c, place); },
        [&](const Read& r) { return type_of_read(e, r, place); },
        [&](const Reduce& r) { return type_of_reduce(e, r, place); });
  }

  void error(const Expr& at, std::string message, std::vector<std::string> notes = {}) {
    if (errors_.size() >= kMostProblems) return;
    errors_.error(place_in(where_, at), std::move(message), std::move(notes));
  }

  /// An integer that may read inputs of integers.
  void expect_index(const Expr& e, const std::string& of) {
    expect_integer(e, type_of(e, Place::index),
                   of == func && of.find(' ') != std::string::npos ? of : "a place of " + of);
  }

 private:
  const Algorithm& algorithm() const { return scope_.algorithm; }
  bool is_axis(const std::string& name) const { return std::find(axes.begin(), axes.end(), name) != axes.end(); }

  Type type_of_variable(const Expr& e, const std::string& name) {
    if (is_axis(name)) return Type::integer;
    if (algorithm().find_extent(name)) {
      scope_.used_names.insert(name);
      return Type::integer;
    }
    if (algorithm().find_scalar(name)) {
      scope_.used_names.insert(name);
      if (!scalars || scalars->contains(name)) return Type::real;
      scope_.unresolved = true;
      error(e, "scalar " + name + " stands further down", {"a default reads extents and the scalars above it"});
      return Type::unknown;
    }
    if (algorithm().find_input(name) || algorithm().find_func(name)) {
      scope_.unresolved = true;
      error(e, name + " is a tensor", {"an element of it is read with brackets: " + name + "[..]"});
      return Type::unknown;
    }
    scope_.unresolved = true;
    // Looking for the nearest name is dear.
    if (errors_.size() >= kMostProblems) return Type::unknown;
    std::vector<std::string> known = axes;
    for (const Extent& extent : algorithm().extents) known.push_back(extent.name);
    for (const Scalar& scalar : algorithm().scalars) known.push_back(scalar.name);
    if (scope_.axis_extents.contains(name))
      error(e, "'" + quoted(name) + "' is no axis here",
            {"it is neither an axis of " + func + " nor of a reduction around this place"});
    else
      error(e, "unknown name '" + quoted(name) + "'", suggestion(name, known));
    return Type::unknown;
  }

  void expect_integer(const Expr& e, Type type, const std::string& what) {
    if (type == Type::integer || type == Type::unknown) return;
    error(e, what + " must be an integer, found " + std::string(describe(type)));
  }
  void expect_number(const Expr& e, Type type, const std::string& what) {
    if (!is_number(type))
      error(e, what + " must be a number, found a condition", {"select(condition, 1, 0) makes a number of it"});
  }
  void expect_condition(const Expr& e, Type type, const std::string& what) {
    if (type == Type::boolean || type == Type::unknown) return;
    error(e, what + " must be a condition, found " + std::string(describe(type)),
          {"compare it with something, such as != 0"});
  }

  Type type_of_call(const Expr& e, const Call& c, Place place) {
    const std::string name(info(c.op).name);
    if (!info(c.op).user) error(e, name + " can't be written in an algorithm: the compiler puts it in");
    const bool guards = c.op == Op::select || c.op == Op::logical_and || c.op == Op::logical_or;
    std::vector<Type> types;
    const bool outer = guarded;
    for (const Expr& arg : c.args) {
      types.push_back(type_of(arg, place));
      if (guards) guarded = true;
    }
    guarded = outer;
    return type_of_result(e, c, types);
  }

  Type type_of_result(const Expr& e, const Call& c, const std::vector<Type>& types) {
    const std::string what = "an operand of " + std::string(info(c.op).name);
    const bool integers = std::all_of(types.begin(), types.end(), [](Type t) { return t == Type::integer; });
    const auto numbers = [&] {
      for (std::size_t i = 0; i < types.size(); ++i) expect_number(c.args[i], types[i], what);
    };
    switch (c.op) {
      case Op::floor_div:
      case Op::mod:
        for (std::size_t i = 0; i < types.size(); ++i) expect_integer(c.args[i], types[i], what);
        if (c.args[1].is_constant(0)) error(c.args[1], "division by zero");
        return Type::integer;
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::min:
      case Op::max:
      case Op::neg:
      case Op::abs:
        numbers();
        return integers ? Type::integer : Type::real;
      case Op::lt:
      case Op::le:
      case Op::gt:
      case Op::ge:
      case Op::eq:
      case Op::ne:
        numbers();
        return Type::boolean;
      case Op::logical_and:
      case Op::logical_or:
      case Op::logical_not:
        for (std::size_t i = 0; i < types.size(); ++i) expect_condition(c.args[i], types[i], what);
        return Type::boolean;
      case Op::select:
        return type_of_select(e, c, types);
      case Op::div:
      case Op::exp:
      case Op::exp2:
      case Op::log:
      case Op::log2:
      case Op::tanh:
      case Op::sigmoid:
      case Op::sqrt:
      case Op::pow:
      case Op::count_below:
      case Op::safe:
      case Op::absorb:
        break;
    }
    numbers();
    return Type::real;
  }

  Type type_of_select(const Expr& e, const Call& c, const std::vector<Type>& types) {
    expect_condition(c.args[0], types[0], "the first operand of select");
    if (types[1] == types[2]) return types[1];
    if (types[1] == Type::unknown || types[2] == Type::unknown) return Type::unknown;
    if (!is_number(types[1]) || !is_number(types[2])) {
      error(e, "select chooses between a number and a condition");
      return Type::unknown;
    }
    return Type::real;
  }

  Type type_of_read(const Expr& e, const Read& r, Place place) {
    for (const Expr& index : r.indices) {
      const Type type = type_of(index, place == Place::extents_only ? place : Place::index);
      expect_integer(index, type, "an index of " + r.tensor);
    }
    if (place == Place::extents_only) {
      error(e, "a tensor can't be read here", {"only extents and numbers can stand here"});
      return Type::unknown;
    }
    if (scope_.known.unread.contains(r.tensor)) return Type::unknown;
    const Input* input = algorithm().find_input(r.tensor);
    const Func* definition = algorithm().find_func(r.tensor);
    if (!input && !definition) {
      if (errors_.size() >= kMostProblems) return Type::unknown;
      std::vector<std::string> tensors(scope_.defined.begin(), scope_.defined.end());
      for (const Input& candidate : algorithm().inputs) tensors.push_back(candidate.name);
      scope_.unresolved = true;
      error(e, "unknown tensor '" + quoted(r.tensor) + "'", suggestion(r.tensor, tensors));
      return Type::unknown;
    }
    scope_.used_tensors.insert(r.tensor);
    if (definition && !input && !scope_.defined.contains(r.tensor)) {
      scope_.unresolved = true;
      error(e,
            r.tensor == func ? func + " reads itself" : func + " reads " + r.tensor + ", which is defined further down",
            {"a definition reads inputs and the definitions above it"});
      return Type::unknown;
    }
    const std::size_t dims = input ? input->dims.size() : definition->indices.size();
    if (r.indices.size() != dims) {
      error(e,
            r.tensor + " has " + std::to_string(dims) + (dims == 1 ? " dimension" : " dimensions") + ", found " +
                std::to_string(r.indices.size()) + (r.indices.size() == 1 ? " index" : " indices"),
            {input ? r.tensor + " is " + print_dims(input->dims)
                   : r.tensor + " is defined over " + print_names(definition->indices)});
    } else {
      for (std::size_t i = 0; i < dims; ++i) check_range(r, i, input, definition);
    }
    if (place == Place::index && (!input || type_of_input(*input) == Type::real)) {
      error(e, "an index can't read " + r.tensor + ", which does not hold integers",
            {"give the input a dtype: " + r.tensor + ": {dims: [..], dtype: i32}"});
      return Type::unknown;
    }
    return input ? type_of_input(*input) : Type::real;
  }

  /// An axis shifted by a constant leaves the dimension that it runs over.
  void check_range(const Read& r, std::size_t position, const Input* input, const Func* definition) {
    const Expr& index = r.indices[position];
    const auto constant = [](const Expr& e) { return e.as<Integer>() ? e.as<Integer>()->value : 0; };
    if (constant(index) < 0) error(index, "index " + to_string(index) + " of " + r.tensor + " is negative");
    if (guarded) return;
    const bool sum = index.is_call(Op::add);
    if (!sum && !index.is_call(Op::sub)) return;
    const Call& c = *index.as<Call>();
    const bool swapped = sum && c.args[1].as<Variable>();
    const auto* axis = c.args[swapped ? 1 : 0].as<Variable>();
    if (!axis || !is_axis(axis->name) || constant(c.args[swapped ? 0 : 1]) == 0) return;
    const auto extent = scope_.axis_extents.find(axis->name);
    if (extent == scope_.axis_extents.end()) return;
    const auto of_definition =
        definition ? scope_.axis_extents.find(definition->indices[position]) : scope_.axis_extents.end();
    if (!input && of_definition == scope_.axis_extents.end()) return;
    const Expr& dim = input ? input->dims[position] : of_definition->second;
    if (!(dim == extent->second)) return;
    const std::string length = print_expr(dim, {}, true);
    error(index,
          "index " + print_expr(index, {}, true) + " leaves " + r.tensor + ": axis " + axis->name +
              " runs over all of " + length + ", the length of that dimension",
          {"guard it with 'where' or select(condition, .., ..)"});
  }

  Type type_of_reduce(const Expr& e, const Reduce& r, Place place) {
    const std::string name(name_of(r.op));
    if (place != Place::value) {
      error(e,
            std::string("a reduction can't stand in ") + (place == Place::index       ? "an index"
                                                          : place == Place::predicate ? "a condition"
                                                                                      : "an expression over extents"),
            {"give it a definition of its own"});
      return Type::unknown;
    }
    const std::string problem = problem_with_name(r.axis);
    if (!problem.empty()) error(e, "the axis '" + quoted(r.axis) + "' " + problem);
    const bool binds = r.op != Reduction::softmax;
    if (algorithm().find_extent(r.axis) || algorithm().find_scalar(r.axis)) {
      error(e, name + " runs over an axis, and " + r.axis + " is " +
                   (algorithm().find_extent(r.axis) ? "an extent" : "a scalar"));
    } else if (binds && is_axis(r.axis)) {
      error(e, "axis " + r.axis + " is bound twice: " + name + " runs over an axis that is taken already",
            {r.op == Reduction::max || r.op == Reduction::min
                 ? "write " + name + "((" + r.axis + "), ..) for the larger or smaller of two values"
                 : "give the reduction an axis of its own"});
    } else if (!binds && !is_axis(r.axis)) {
      error(e, "softmax runs over an axis of " + func + ", and '" + quoted(r.axis) + "' is none",
            {"softmax keeps its axis; sum, max, min and logsumexp bind theirs"});
    }
    if (r.op != Reduction::sum && !free_variables(r.body.front()).contains(r.axis))
      error(e, name + " over " + quoted(r.axis) + " of an expression that does not depend on it");
    if (binds) axes.push_back(r.axis);
    const Type type = type_of(r.body.front(), place);
    expect_number(r.body.front(), type, "the operand of " + name);
    if (binds) axes.pop_back();
    const bool keeps = r.op == Reduction::sum || r.op == Reduction::max || r.op == Reduction::min;
    return keeps ? type : Type::real;
  }

  static std::string print_dims(const std::vector<Expr>& dims) {
    std::string out;
    for (const Expr& dim : dims) out += (out.empty() ? "" : ", ") + print_expr(dim, {}, true);
    return "[" + out + "]";
  }
  static std::string print_names(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
    return "[" + out + "]";
  }

  Scope& scope_;
  Diagnostics& errors_;
  Location where_;
};

/// Where an axis has a length for each place of others, definitions over it are definitions over those.
void check_lengths_known(const Func& func, const Scope& scope, Diagnostics& errors) {
  std::set<std::string> axes(func.indices.begin(), func.indices.end());
  visit(func.value, [&](const Expr& e) {
    if (const auto* r = e.as<Reduce>()) axes.insert(r->axis);
  });
  for (const std::string& axis : axes) {
    const auto length = scope.algorithm.lengths.find(axis);
    if (length == scope.algorithm.lengths.end()) continue;
    for (const std::string& other : free_variables(length->second))
      if (scope.axis_extents.contains(other) && !astatide::contains(func.indices, other))
        errors.error(func.where,
                     "axis " + axis + " of " + func.name + " is " + print_expr(length->second, {}, true) +
                         " long, and " + func.name + " has no axis " + other,
                     {"give " + func.name + " the axis " + other});
  }
}

}  // namespace

std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(word, candidates);
  if (nearest.empty()) return {};
  return {"did you mean " + nearest + "?"};
}

void check_definition(const Func& func, Scope& scope, Diagnostics& errors) {
  TypeChecker checker(scope, errors, func.where);
  checker.axes = func.indices;
  checker.func = func.name;
  if (func.where_predicate) {
    const Type type = checker.type_of(*func.where_predicate, Place::predicate);
    if (type != Type::boolean && type != Type::unknown)
      checker.error(*func.where_predicate,
                    "what follows 'where' must be a condition, found " + std::string(describe(type)),
                    {"compare it with something, such as != 0"});
  }
  checker.guarded = func.where_predicate.has_value();
  if (checker.type_of(func.value, Place::value) == Type::boolean)
    checker.error(func.value, "the value of " + func.name + " must be a number, found a condition",
                  {"select(condition, 1, 0) makes a number of it"});
  checker.guarded = true;
  for (const Expr& place : func.stored) checker.expect_index(place, func.name);
  check_lengths_known(func, scope, errors);
}

void check_length(const std::string& axis, const Location& where, Scope& scope, Diagnostics& errors) {
  const Expr& length = scope.algorithm.lengths.at(axis);
  TypeChecker checker(scope, errors, where);
  checker.func = "the length of " + axis;
  checker.guarded = true;
  for (const std::string& name : free_variables(length))
    if (scope.axis_extents.contains(name)) checker.axes.push_back(name);
  checker.expect_index(length, checker.func);
  for (const std::string& other : checker.axes)
    if (scope.algorithm.lengths.contains(other))
      errors.error(where,
                   "the length of axis " + quoted(axis) + " varies with " +
                       (other == axis ? "itself" : quoted(other) + ", whose own length varies"),
                   {"a length reads integers at places of axes that are as long everywhere"});
}

void check_extent_expression(const Expr& e, const std::string& what, const Location& where, Scope& scope,
                             Diagnostics& errors) {
  TypeChecker checker(scope, errors, where);
  const Type type = checker.type_of(e, Place::extents_only);
  if (type != Type::integer && type != Type::unknown)
    checker.error(e, what + " must be an integer, found " + std::string(describe(type)));
}

void check_default(const Scalar& scalar, const std::set<std::string>& above, Scope& scope, Diagnostics& errors) {
  TypeChecker checker(scope, errors, scalar.where);
  checker.scalars = &above;
  if (checker.type_of(*scalar.default_value, Place::extents_only) == Type::boolean)
    checker.error(*scalar.default_value, "the default of " + scalar.name + " must be a number, found a condition");
}

}  // namespace astatide
