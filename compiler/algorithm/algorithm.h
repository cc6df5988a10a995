#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/algorithm/expr.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/scalar_type.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// An extent: a length known when a kernel is launched, or, where a tile covers the whole axis, when it is compiled.
struct Extent {
  std::string name;
  Location where;
};

/// What lengths have to fulfil at a launch beyond what shapes say: `value` is so many times `of`, which is positive.
struct Multiple {
  Expr value, of;
  Location where;

  friend bool operator==(const Multiple&, const Multiple&) = default;
};

/// A run-time f32 parameter, such as the softmax scale.
struct Scalar {
  std::string name;
  /// Over extents and earlier scalars, evaluated as reals; none: the caller must give a value.
  std::optional<Expr> default_value;
  Location where;
};

/// A tensor that the caller gives. `dims` are extents or integer expressions over extents, outermost first.
struct Input {
  std::string name;
  std::vector<Expr> dims;
  /// Empty: the data type that the request names (--dtype), the same for all such inputs.
  std::optional<ScalarType> dtype;
  Location where;
  /// A promise about the values of integers: along the last dimension none is less than the one before it. Searches
  /// take the place of tests then.
  bool monotone = false;
};

/// name[indices] = value where predicate. An element whose predicate is false is absent: the identity of every
/// reduction that reads it, and an expression that reads an absent element is itself absent.
struct Func {
  std::string name;
  std::vector<std::string> indices;
  Expr value;
  std::optional<Expr> where_predicate;
  Location where;
  /// Of an output whose elements lie at other places than their own indices: O[offset[b] + i, h, e]. One expression a
  /// dimension of the tensor (output_dims), over the axes, extents and inputs of integers. Empty: at its own indices.
  /// Of an update: the places in the input, `name`, always.
  std::vector<Expr> stored{};
};

/// What to compute, with no word on how. The same value comes from YAML (parse_algorithm) and from the C++ API.
struct Algorithm {
  std::string name;
  std::vector<Extent> extents;
  std::vector<Scalar> scalars;
  std::vector<Input> inputs;
  /// Elements that are stored into inputs before anything is defined, in order: what is read of such an input later, by
  /// an update below or a definition, is what it holds then. An element whose predicate is false is not stored, and its
  /// places are not looked at; what no update stores keeps its bits. No update reads what it or one below it stores, so
  /// that a launch that is repeated stores the same again.
  std::vector<Func> updates{};
  /// In order; a definition reads inputs and earlier definitions only.
  std::vector<Func> define;
  std::vector<std::string> outputs;
  /// Dimensions of the outputs that are stored at places of their own.
  std::map<std::string, std::vector<Expr>> output_dims{};
  /// Extents used when a request names none.
  std::map<std::string, std::int64_t> sizes;
  /// Extent of an axis that no read shows, such as one used only through j/16; optional in files (`axes: {j: Sk}`).
  std::map<std::string, Expr> axes;
  /// Of a ragged axis: the length that it has for each place of other axes, at most its extent (`axes: {j: length[b] <=
  /// Sk}`). It has no elements beyond.
  std::map<std::string, Expr> lengths{};
  Location where;

  const Extent* find_extent(const std::string& name) const;
  const Scalar* find_scalar(const std::string& name) const;
  const Input* find_input(const std::string& name) const;
  const Func* find_func(const std::string& name) const;
  /// Whether any update stores into the input.
  bool updates_input(const std::string& name) const;
};

/// Equal up to places.
bool equal(const Algorithm& a, const Algorithm& b);

/// The extent of every axis of every definition and update: the extent that the axis indexes directly in some read, or
/// what `axes` says; of an update else that of the dimension along which it stores. All problems are collected into
/// `errors` ("axis d is D in Q and Dv in V").
std::map<std::string, Expr> infer_axis_extents(const Algorithm& algorithm, Diagnostics& errors);

/// Refuses an algorithm that means nothing: unknown and unused names, wrong numbers of indices, axes without an extent,
/// cyclic or repeated definitions, non-integer indices, outputs that don't exist. Throws UserError with all problems.
void check_algorithm(const Algorithm& algorithm);

/// The same, with the length of each ragged axis in place of its extent.
std::map<std::string, Expr> infer_axis_lengths(const Algorithm& algorithm, Diagnostics& errors);

/// The algorithm without ragged axes: what they have no elements for is absent, and outputs lie at their own indices
/// (updates where they are stored).
/// What the evaluator computes.
Algorithm with_lengths_as_predicates(const Algorithm& algorithm);
/// Adds the axis with its extent, or with a length and the extent that bounds it: length <= extent.
void add_axis(Algorithm& algorithm, const std::string& axis, const Expr& extent);
/// Holds for the elements of a definition that its ragged axes have.
std::optional<Expr> within_lengths(const Algorithm& algorithm, const std::vector<std::string>& axes);

/// Shape of the tensor that holds a definition, in extents, outermost first.
std::vector<Expr> shape_of(const Algorithm& algorithm, const std::string& func);

/// Reads an algorithm from YAML text. `file` is used in messages. Throws UserError with all problems of the text.
Algorithm parse_algorithm(const std::string& text, const std::string& file);
/// Reads one expression, such as "sum(d, Q[b,h,i,d] * K[b,h,j,d]) * scale". `in_index`: `/` is the division of
/// integers. Line and column of the text's first character are given by `at`.
Expr parse_expr(const std::string& text, const Location& at, bool in_index = false);
/// Reads "S[b,h,i,j] = expr where predicate".
Func parse_definition(const std::string& text, const Location& at);
/// An update: its axes are the names in its places that are neither extents nor scalars, in their order.
Func make_update(const Algorithm& algorithm, const std::string& input, std::vector<Expr> places, Expr value,
                 std::optional<Expr> where_predicate, Location where);

/// A JSON Schema (draft 2020-12) of algorithm files, for people's editors: examples/schema.json.
std::string algorithm_json_schema();

/// YAML that parses to an equal algorithm.
std::string print_algorithm(const Algorithm& algorithm);
/// The definitions as mathematics, one a line.
std::string print_mathematics(const Algorithm& algorithm);

}  // namespace astatide
