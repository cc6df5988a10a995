#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// sum over `axis` of lhs * rhs, where lhs varies with the row and not along the cascade's axis, rhs along it and not
/// with the tiled row: what a product of two tiles computes.
struct Product {
  std::string axis;  // contracted, such as d
  Expr lhs;          // a Read, such as Q[b,h,i,d]
  Expr rhs;          // a Read, such as K[b,h*Hkv/Hq,j,d]
};

/// A value that varies along the cascade's axis and depends on no reduction over it: a raw score, a masked score, an
/// input element. Named after the definition that it comes from, which is how a schedule speaks of it.
struct Element {
  std::string name;
  std::vector<std::string> indices;  // as in the definition, such as b,h,i,j
  std::optional<Product> product;    // computed first; `value` then names its result by the element's own name
  /// Over the own product, earlier elements (by name, at the same indices), axes, extents, scalars, and reads of
  /// inputs.
  Expr value;
  /// Conjunction of predicates; the element is absent where one is false. Bounds of the axis itself are not listed.
  std::vector<Expr> where_predicates;
  /// What an absent element holds: a value at which every term that reads it equals the unit of its reduction. Terms
  /// for which no such value exists have `masked` set.
  double absent = 0;
  Location where;
};

/// R = (op) over the axis of `term`, at each row (and each value of `extra`).
struct Stage {
  std::string name;                // "m", "l", "O": from the definition, or made
  Reduction op = Reduction::sum;   // sum, max or min
  std::vector<std::string> extra;  // axes of the result beyond the rows, such as e
  Expr term;                       // over elements, earlier stages, axes, and reads of inputs
  /// The term needs a select on the predicates of what it reads, and on the bounds of the axis; one that reads no
  /// element (a count) needs the latter alone.
  bool masked = false;
  Location where;
};

/// A value computed from reductions: an output, or a definition between the stages and the outputs.
struct RowValue {
  std::string name;
  std::vector<std::string> indices;
  Expr value;  // over stages (or, in a Recurrence, slots), row constants, and, where it varies along the axis, elements
  std::vector<Expr> where_predicates;
  bool output = false;
  Location where;
  /// Of an output: the indices of its elements in the tensor, over its own; empty where they are those.
  std::vector<Expr> stored_at{};
};

/// All reductions of an algorithm over one axis, in dependency order, as they are written: nothing is derived yet. With
/// `rewrite: none` this is what gets lowered, one pass over the axis a stage.
struct Cascade {
  std::string axis;               // j
  std::vector<std::string> rows;  // axes of the rows, outermost first: b, h, i
  std::vector<Element> elements;
  std::vector<Stage> stages;
  /// In order; outputs among them. One that varies along the axis (P) is kept here, and named in terms as an inlined
  /// expression.
  std::vector<RowValue> values;
  std::map<std::string, Expr> axis_extents;  // of every axis that occurs; of a ragged one what bounds its length
  /// Extents, and scalars whose default is positive whatever the extents are. An argument that breaks the promise
  /// changes no result but may let an exponential overflow.
  std::set<std::string> positive;
  std::vector<Multiple> multiples;  // that the rows rely on
};

/// Finds the cascade that the outputs need. Nothing is recognised by name: abbreviations are expanded first. Throws
/// UserError with the place where the outputs need reductions over several axes, or a reduction that is no product of
/// tiles inside an element.
Cascade find_cascade(const Algorithm& algorithm);

}  // namespace astatide
