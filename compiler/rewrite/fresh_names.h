#pragma once

#include <set>
#include <string>

#include "compiler/rewrite/cascade.h"

namespace astatide {

/// Makes names that nothing else has, and whose new_value_name() nothing else has.
class FreshNames {
 public:
  explicit FreshNames(std::set<std::string> taken) : taken_(std::move(taken)) {}

  /// `base`, or base_2, base_3, ..: the first that is free.
  std::string fresh(const std::string& base);

 private:
  std::set<std::string> taken_;
};

/// Every name of an algorithm: extents, scalars, inputs, definitions and their axes. Those of updates are their own.
std::set<std::string> names_of(const Algorithm& algorithm);
/// Every name that occurs in a cascade.
std::set<std::string> names_of(const Cascade& cascade);

}  // namespace astatide
