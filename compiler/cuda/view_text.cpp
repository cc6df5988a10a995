#include "compiler/cuda/view_text.h"

#include <fmt/format.h>

#include "compiler/cuda/type_text.h"

namespace astatide::cuda {

const tile::Coordinate* find_coordinate(const tile::View& view, const std::string& axis) {
  for (const tile::Coordinate& coordinate : view.at)
    if (coordinate.axis == axis) return &coordinate;
  return nullptr;
}

std::string converted(const std::string& value, ScalarType to) {
  return to == ScalarType::f32 ? value : fmt::format("from_float<{}>({})", type_text(to), value);
}

}  // namespace astatide::cuda
