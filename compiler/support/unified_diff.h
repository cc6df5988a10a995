#pragma once

#include <string>

namespace astatide {

/// What `diff -u` says of two texts: "--- FIRST", "+++ SECOND" and the lines that differ with three lines around them.
/// Empty where the texts are equal. Of texts that share neither beginning nor end and have more than some ten thousand
/// lines, the whole middle counts as replaced: right, but not the shortest.
std::string unified_diff(const std::string& first, const std::string& second, const std::string& first_name,
                         const std::string& second_name);

}  // namespace astatide
