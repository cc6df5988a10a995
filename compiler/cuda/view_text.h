#pragma once

#include <string>

#include "compiler/tile/ir.h"

namespace astatide::cuda {

/// The coordinate of a view along an axis; null where it has none.
const tile::Coordinate* find_coordinate(const tile::View& view, const std::string& axis);
/// The text of a float as an element of that type.
std::string converted(const std::string& value, ScalarType to);

}  // namespace astatide::cuda
