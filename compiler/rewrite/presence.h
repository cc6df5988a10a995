#pragma once

#include "compiler/rewrite/fresh_names.h"

namespace astatide {

/// The name of the element of `cascade` that holds `value` and is absent where one of `predicates` is false; it is
/// added if there is none, under a name made from `base`.
std::string presence_element(Cascade& cascade, FreshNames& names, const std::vector<Expr>& predicates, int value,
                             const std::string& base, const Location& where);

}  // namespace astatide
