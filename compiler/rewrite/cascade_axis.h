#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

/// The definitions that the outputs need, in order.
std::vector<Func> needed_definitions(const Algorithm& algorithm);

/// The axis that the reductions of the outputs share: the one whose reductions no other reduction reads. Throws
/// UserError with the place where there is none, or more than one.
std::string find_cascade_axis(const std::vector<Func>& definitions);

/// Extents, and scalars whose default is positive whatever the extents are.
std::set<std::string> positive_names(const Algorithm& algorithm);

}  // namespace astatide
