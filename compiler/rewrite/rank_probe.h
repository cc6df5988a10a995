#pragma once

#include "compiler/algorithm/expr.h"

namespace astatide {

struct Derivation;

/// Separation rank of f(x, r) on random probes, x what varies along the axis and r the slots: a lower bound on the
/// number of carried sums of any streaming form. Turns "not found" into "none with a small state". Source:
/// compiler/rewrite/README.md.
int probe_rank(const Derivation& derivation, const Expr& f);

}  // namespace astatide
