#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "compiler/visible.h"

namespace astatide {

/// What places are counted among.
struct Places {
  std::map<std::string, std::int64_t> axes;  // lengths
  std::map<std::string, std::int64_t> extents;
  const Algorithm* algorithm = nullptr;  // whose inputs predicates read
  const InputValues* inputs = nullptr;
};

/// How many places fulfil one of the conjunctions, or why that is not known.
std::variant<double, std::string> count_places(const Places& places,
                                               const std::vector<std::vector<Expr>>& conjunctions);

}  // namespace astatide
