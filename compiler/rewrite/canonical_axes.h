#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"

namespace astatide {

/// Definitions that read each other under the same axis names: `L[b,h,q] = logsumexp(k, A[b,h,q,k])` after `A[b,h,i,j]`
/// comes out over i and j. Abbreviations are expanded. A read at anything but plain axes, and a renaming that would
/// join two axes or two lengths, leaves the names as they are.
std::vector<Func> with_canonical_axes(const std::vector<Func>& definitions, const std::map<std::string, Expr>& extents);

}  // namespace astatide
