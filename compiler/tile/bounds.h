#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

// Interval and affine analysis of integer expressions, with symbolic ends: what predicates say about whole tiles.

namespace astatide::tile {

/// low <= e <= high, both attained or not.
struct Bounds {
  Expr low, high;
};

/// Bounds of an integer expression while each name of `ranges` runs over its bounds and every other name stays as it
/// is. Nothing where an operation is not monotone in what varies, or a tensor is read at an index that varies, but for
/// one that `program` knows as monotone.
std::optional<Bounds> bounds_of(const Expr& e, const std::map<std::string, Bounds>& ranges,
                                const Program* program = nullptr);

/// e == factor * name + rest, where rest does not read the name.
struct LinearForm {
  std::int64_t factor = 0;
  Expr rest;
};
std::optional<LinearForm> linear_in(const Expr& e, const std::string& name);

/// e == factor * tensor[.., first + name] + rest, where the tensor is monotone and nothing else reads the name: what e
/// bounds is found in the tensor by a search.
struct SearchForm {
  std::int64_t factor = 0;
  Expr first;  // the element at name = 0
  Expr rest;
};
std::optional<SearchForm> searched_in(const Expr& e, const std::string& name, const Program& program);

/// The predicates of a conjunction, with negations of comparisons resolved.
std::vector<Expr> conjuncts(const std::vector<Expr>& predicates);

/// Inequalities e <= 0 that together equal the predicate; nothing where it is no comparison of sums of integers, those
/// that tensors hold among them.
std::vector<Expr> as_inequalities(const Expr& predicate, const Program& program, const Kernel& kernel);

/// Where e <= 0 bounds an axis from above: the first place along it that it leaves out, whatever the names of `ranges`
/// are. Nothing where it does not, or where nothing tells.
std::optional<Expr> end_along(const std::string& axis, const Expr& inequality,
                              const std::map<std::string, Bounds>& ranges);

/// Whether an integer is a multiple of `number` for every value of its variables, as far as its form shows.
bool is_multiple(const Expr& e, std::int64_t number);

/// A sum of names and numbers that are not negative, extents and loop variables, of their products and quotients.
bool is_never_negative(const Expr& e);

/// The largest (op max) or smallest (min) of a list, or nothing.
std::optional<Expr> extreme(const std::vector<Expr>& list, Op op);

/// A bound as extents alone give it: of two, one of which a tensor gives, the other.
Expr without_data(const Expr& e);

/// The same sum with equal terms collected, constants last; an expression that is no sum stays as it is.
Expr collect_terms(const Expr& e);

}  // namespace astatide::tile
