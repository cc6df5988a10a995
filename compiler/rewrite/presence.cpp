#include "compiler/rewrite/presence.h"

#include <algorithm>

namespace astatide {

std::string presence_element(Cascade& cascade, FreshNames& names, const std::vector<Expr>& predicates, int value,
                             const std::string& base, const Location& where) {
  for (const Element& element : cascade.elements) {
    if (element.where_predicates == predicates && element.value.is_constant(value)) return element.name;
  }
  Element presence;
  presence.name = names.fresh(base + "_present");
  std::set<std::string> axes;
  for (const Expr& predicate : predicates) axes.merge(free_variables(predicate));
  for (const std::string& row : cascade.rows) {
    if (axes.contains(row)) presence.indices.push_back(row);
  }
  for (const auto& [axis, extent] : cascade.axis_extents) {
    const bool is_row = std::find(cascade.rows.begin(), cascade.rows.end(), axis) != cascade.rows.end();
    if (axes.contains(axis) && !is_row) presence.indices.push_back(axis);
  }
  presence.value = Expr(value);
  presence.where_predicates = predicates;
  presence.where = where;
  cascade.elements.push_back(presence);
  return presence.name;
}

}  // namespace astatide
