#pragma once

#include <set>
#include <string>

#include "compiler/tile/bounds.h"

// What the blocks of a cluster have in common.

namespace astatide::tile {

/// The first and the last tile of the cluster that its axis' variable lies in.
Bounds tiles_of(const Cluster& cluster);

/// What all blocks of a kernel's cluster compute alike. The kernel has one.
class AlikeInCluster {
 public:
  explicit AlikeInCluster(const Kernel& kernel);

  bool holds(const Expr& e) const;
  /// Of the place of a tile in a tensor.
  bool holds(const View& view) const;

 private:
  Expr number_;                   // of the cluster along its axis
  std::set<std::string> differ_;  // the axis, and lets, loop variables and flags that follow it
};

}  // namespace astatide::tile
