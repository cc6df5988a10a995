#include "compiler/cuda/view_text.h"

#include <fmt/format.h>

#include "compiler/cuda/type_text.h"

namespace astatide::cuda {

bool is_multiple(const Expr& e, int vector) {
  if (const auto* n = e.as<Integer>()) return n->value % vector == 0;
  const auto* c = e.as<Call>();
  if (!c) return false;
  if (c->op == Op::mul) return is_multiple(c->args[0], vector) || is_multiple(c->args[1], vector);
  if (c->op == Op::add || c->op == Op::sub) return is_multiple(c->args[0], vector) && is_multiple(c->args[1], vector);
  return false;
}

const tile::Coordinate* find_coordinate(const tile::View& view, const std::string& axis) {
  for (const tile::Coordinate& coordinate : view.at)
    if (coordinate.axis == axis) return &coordinate;
  return nullptr;
}

std::string converted(const std::string& value, ScalarType to) {
  return to == ScalarType::f32 ? value : fmt::format("from_float<{}>({})", type_text(to), value);
}

}  // namespace astatide::cuda
