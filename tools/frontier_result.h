#pragma once

#include <string>

#include "api/frontier.h"

namespace astatide::tools {

/// What `frontier` found, and for what.
struct Frontiers {
  std::string algorithm;
  ScalarType dtype = ScalarType::f32;
  FrontierResult result;
};

std::string frontier_text(const Frontiers& frontiers);
std::string frontier_json(const Frontiers& frontiers);
/// A grid of winners, the first axis across and the others down, then the times over the first axis: a panel for each
/// row, kMostPanels of them.
std::string frontier_svg(const Frontiers& frontiers);
inline constexpr std::size_t kMostPanels = 6;

}  // namespace astatide::tools
