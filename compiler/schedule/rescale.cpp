#include "compiler/schedule/rescale.h"

#include <algorithm>

namespace astatide {
namespace {

/// The largest power of two that a type holds, in log2.
int largest_power(ScalarType type) { return type == ScalarType::f16 ? 15 : 127; }

void check_range(const Schedule& schedule, const std::string& key, std::optional<int> number, ScalarType weights) {
  const int most = largest_power(weights);
  if (!number || *number <= most) return;
  const std::string type(name_of(weights));
  throw UserError(place_of_rescale(schedule, key),
                  key + ": " + std::to_string(*number) + " lets weights reach 2^" + std::to_string(*number) +
                      ", and they are rounded to " + type + ", which ends below 2^" + std::to_string(most + 1),
                  {key + ": " + std::to_string(most) + " is the largest for " + type});
}

}  // namespace

Location place_of_rescale(const Schedule& schedule, const std::string& key) {
  for (const std::string& place : {key, std::string("rescale"), std::string("rewrite")})
    if (const auto found = schedule.places.find(place); found != schedule.places.end()) return found->second;
  return schedule.where;
}

RescaleBounds rescale_bounds(const Schedule& schedule, ScalarType weights) {
  const Rescale& rescale = schedule.rescale;
  check_range(schedule, "grow", rescale.grow, weights);
  check_range(schedule, "over", rescale.over, weights);
  // bf16 has the exponents of f32. Far bounds make redone tiles rare; with f16 half of the range is left for growth.
  const bool narrow = weights == ScalarType::f16;
  RescaleBounds out{narrow ? 8 : 30, narrow ? 14 : 60};
  if (rescale.grow) out.over = std::max(out.over, *rescale.grow);
  if (rescale.over) out.grow = std::min(out.grow, *rescale.over);
  out.grow = rescale.grow.value_or(out.grow);
  out.over = rescale.over.value_or(out.over);
  return out;
}

}  // namespace astatide
