#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/check.h"

namespace astatide {

/// Everything that a definition may speak of, and what was spoken of so far.
struct Scope {
  const Algorithm& algorithm;
  const Known& known;
  std::map<std::string, Expr> axis_extents;
  /// Definitions above the one being checked.
  std::set<std::string> defined;
  std::set<std::string> used_names;
  std::set<std::string> used_tensors;
  /// A name was looked for and not found: what was meant may look unused.
  bool unresolved = false;
};

/// Axes, names, numbers of indices and types of one definition.
void check_definition(const Func& func, Scope& scope, Diagnostics& errors);

/// The same of an update, with what it may read and where it may store: `number` counts those of the algorithm.
void check_update(std::size_t number, Scope& scope, Diagnostics& errors);

/// An expression of integers over extents: a dimension, or the extent of an axis.
void check_extent_expression(const Expr& e, const std::string& what, const Location& where, Scope& scope,
                             Diagnostics& errors);
/// The length of a ragged axis: an integer over extents, inputs of integers and axes that are not ragged.
void check_length(const std::string& axis, const Location& where, Scope& scope, Diagnostics& errors);
/// The default of a scalar: a real over extents and scalars above it.
void check_default(const Scalar& scalar, const std::set<std::string>& above, Scope& scope, Diagnostics& errors);

/// "did you mean ..?", or nothing where no candidate is near.
std::vector<std::string> suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace astatide
