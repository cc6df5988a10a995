#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/algorithm/expr.h"

namespace astatide {

/// What names stand for, as far as the text of an expression depends on it. Two rules of the grammar need it:
///
///   max(NAME, x)   is a reduction over the axis NAME where NAME is neither an extent nor a scalar and x depends on it;
///   else it
///                  is the larger of two values, as max((NAME), x) always is. The same for min.
///   a / b          is the division of integers in brackets, and in a comparison whose two sides are built from
///   integers only
///                  (axes, extents, integer literals, reads of integer inputs); elsewhere it is real division.
///
/// floor_div(a, b) and div(a, b) say which is meant, whatever surrounds them. With no names known, every variable is an
/// integer and every read is real.
struct NameKinds {
  std::set<std::string> values;
  std::set<std::string> reals;
  std::set<std::string> integer_tensors;
};

/// Extents and scalars of an algorithm, and its inputs of integers.
NameKinds name_kinds(const Algorithm& algorithm);

/// Where a part of a definition or of an update stands; `whole`, where that is, if nothing says it of the part.
Location place_in(Location whole, const Expr& part);

/// Adds the axes that a place names, each once, in their order: every variable but extents and scalars.
void add_axes_of(const Expr& place, const NameKinds& names, std::vector<std::string>& axes);

/// Built from variables that are not reals, integer literals, reads of integer tensors, and + - * / % min max abs
/// select of those. `real_division` says whether a real division in it is overlooked.
bool is_built_from_integers(const Expr& e, const NameKinds& names, bool real_division = false);

/// The text of an expression among known names; to_string is this with no names known.
std::string print_expr(const Expr& e, const NameKinds& names, bool in_index = false);

constexpr std::size_t kLongestName = 64;

/// Why a word can't be a name, such as "is a function of the language"; empty when it can. A name goes into emitted
/// source, so it is an identifier of C++ and CUDA that no keyword, macro or reserved pattern takes.
std::string problem_with_name(const std::string& name);

/// A word for use in a message: shortened, with control characters and bytes above 127 replaced.
std::string quoted(const std::string& word);
// For a string that may change, std::quoted of <iomanip> would be the better match.
inline std::string quoted(std::string& word) { return quoted(static_cast<const std::string&>(word)); }

}  // namespace astatide
