#include <algorithm>

#include "compiler/schedule/legality.h"

// What runs behind the product of the next tile.

namespace astatide {
namespace {

/// Products of tiles in the loop over the cascade's axis: those of elements, and those that a reduction sums.
std::size_t product_count(const Cascade& cascade) {
  const auto elements = std::count_if(cascade.elements.begin(), cascade.elements.end(),
                                      [](const Element& element) { return element.product.has_value(); });
  const auto stages = std::count_if(cascade.stages.begin(), cascade.stages.end(),
                                    [](const Stage& stage) { return !stage.extra.empty(); });
  return static_cast<std::size_t>(elements + stages);
}

std::string problem_with_nest(const LegalityCheck& check, const LoopNest& nest) {
  if (!nest.placement->tile_of(nest.axis)) return "a tile holds all of " + nest.axis + ", there is no next one";
  if (nest.order.back() != nest.axis_loop())
    return nest.order.back() + " lies inside " + nest.axis_loop() +
           ", so that the next tile is one of other rows, whose state is stored between them";
  if (const auto bound = check.bound_of_axis(nest.axis); bound && *bound <= *nest.placement->tile_of(nest.axis))
    return "the bound " + std::to_string(*bound) + " of " + nest.axis + " is within a tile of " +
           std::to_string(*nest.placement->tile_of(nest.axis)) + ", there is no next one";
  return "";
}

void check_one(LegalityCheck& check, const Placement& placement, const Directive& directive) {
  const auto error = [&](const std::string& message, std::vector<std::string> notes) {
    check.errors.error(directive.where, "overlap of " + placement.name + ": " + message, std::move(notes));
  };
  const std::vector<std::string> leave_out{"leave it out"};
  const auto element = std::find_if(check.cascade.elements.begin(), check.cascade.elements.end(),
                                    [&](const Element& e) { return e.name == placement.name; });
  if (element == check.cascade.elements.end() || !element->product)
    return error(placement.name + " holds no product, and the product of the next tile is what runs ahead", leave_out);
  if (check.schedule.rewrite == RewriteMode::none)
    return error("rewrite: none makes a pass over " + check.cascade.axis + " for each reduction", {"rewrite: online"});
  const std::size_t products = product_count(check.cascade);
  if (products != 2)
    return error(std::to_string(products) + (products == 1 ? " product" : " products") + " of tiles over " +
                     check.cascade.axis + ", and two are overlapped",
                 leave_out);
  for (const LoopNest* nest : check.nests_of(placement.name)) {
    if (!nest->consistent) continue;
    if (const std::string problem = problem_with_nest(check, *nest); !problem.empty()) return error(problem, leave_out);
    const std::int64_t columns = *nest->placement->tile_of(nest->axis);
    const Fraction cover = *placement.overlap();
    if (columns * cover.part % cover.whole != 0)
      error(
          "cover " + to_string(cover) + " of the " + std::to_string(columns) + " columns of a tile is no whole number",
          {"cover: 1/2"});
  }
}

}  // namespace

void check_overlap(LegalityCheck& check) {
  for (const Placement& placement : check.schedule.placements) {
    const Directive* directive = placement.find(DirectiveKind::overlap);
    const NameRole role = check.role_of(placement.name);
    const bool inside = (role == NameRole::element || role == NameRole::weight) && !check.is_root(placement.name);
    if (directive && inside) check_one(check, placement, *directive);
  }
}

}  // namespace astatide
