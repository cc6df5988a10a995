#pragma once

#include <string>

#include "compiler/tile/ir.h"

namespace astatide::cuda {

/// Whether an integer is a multiple of `vector` for every value of its variables, as far as its form shows.
bool is_multiple(const Expr& e, int vector);
/// The coordinate of a view along an axis; null where it has none.
const tile::Coordinate* find_coordinate(const tile::View& view, const std::string& axis);
/// The text of a float as an element of that type.
std::string converted(const std::string& value, ScalarType to);

}  // namespace astatide::cuda
