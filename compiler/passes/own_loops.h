#pragma once

#include <map>
#include <string>

#include "compiler/passes/names_in_kernel.h"
#include "compiler/tile/ir.h"

namespace astatide {

/// Loops of consumers that compute a tile together, each over what the rows of its own warpgroup see. Slots of rings
/// that the others read in iterations that one leaves out it gives back unread, so that all release the same.
class OwnLoops {
 public:
  OwnLoops(const tile::Program& program, const tile::Kernel& kernel) : names_(names_in_kernel(program, kernel)) {}

  /// Whether a let is for consumers alone: a warpgroup's own value of another one. A let that reads that one gets a
  /// twin that reads this. In the order of the kernel's lets.
  bool takes(const tile::Let& let);

  /// The consumers' block with the lets that were taken, and the loops between them.
  tile::Block run(const tile::Block& consumers) const;

 private:
  tile::Block with_skipped(const tile::Block& block) const;

  FreshNames names_;
  std::map<std::string, Expr> own_;  // by the let whose own value it is
  tile::Block lets_;
};

}  // namespace astatide
