#pragma once

#include <string>
#include <vector>

#include "compiler/rewrite/cascade.h"

namespace astatide {

/// An axis of the rows in two, such as query heads in heads of keys and members of a group: h = hk * G + g. G, the
/// length of the inner one, is what an index of the algorithm divides the axis by: h*Hkv/Hq, h/(Hq/Hkv) or h/4.
struct AxisSplit {
  std::string axis, outer, inner;
  std::string of;  // the definition that it is written at
  Location where;
};

/// Axes of the rows in one, of which the first varies fastest: r = i * G + g.
struct AxisFusion {
  std::string fused;
  std::vector<std::string> axes;
  std::string of;
  Location where;
};

/// Other names for the same rows; splits come before fusions.
struct RowGroups {
  std::vector<AxisSplit> splits;
  std::vector<AxisFusion> fusions;
};

/// The cascade over these rows: what it computes for each is the same, each index is an expression over the new axes,
/// and outputs are stored where they were. Refuses axes that are no rows, are taken twice or have names that are taken,
/// and a split that no index of the algorithm shows.
Cascade regroup_rows(const Cascade& cascade, const RowGroups& groups, const Algorithm& algorithm, Diagnostics& errors);

}  // namespace astatide
