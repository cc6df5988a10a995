#pragma once

#include "compiler/rewrite/execute.h"
#include "compiler/rewrite/value_of.h"

namespace astatide {

/// Integer lengths of axes, for the values that a row's inputs give to extents.
std::int64_t length_of(const std::map<std::string, Expr>& axis_extents, const std::string& axis,
                       const RowInputs& inputs);

/// Calls `f` for each value of `axes`, row-major, with the axes' values added to `variables`.
void for_each_index(const std::vector<std::string>& axes, const std::map<std::string, Expr>& axis_extents,
                    const RowInputs& inputs, std::map<std::string, double>& variables,
                    const std::function<void(std::size_t index)>& f);

/// Number of values of `axes`.
std::size_t size_of(const std::vector<std::string>& axes, const std::map<std::string, Expr>& axis_extents,
                    const RowInputs& inputs);

/// The elements at one position of the axis.
struct PositionValues {
  std::map<std::string, double> values;  // the absent value where absent
  std::set<std::string> absent;          // names of absent elements
};

Bindings bindings_of(const RowInputs& inputs);
PositionValues values_at(const std::vector<Element>& elements, const std::string& axis, std::int64_t position,
                         const std::map<std::string, Expr>& axis_extents, const RowInputs& inputs);

/// One value added to a reduction.
double reduced(Reduction op, double total, double value);

}  // namespace astatide
