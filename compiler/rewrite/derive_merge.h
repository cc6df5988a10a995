#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/rewrite/part_states.h"
#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// What joins the outputs that an algorithm gives for parts of its axis (chunks of keys, a shared prefix, keys of other
/// devices) into those of the whole: combine over the states that the outputs determine, then finalize.
struct Merge {
  /// The same as an algorithm over an axis of parts: its inputs are the outputs of all parts, part by part, and what
  /// finalize reads beside. Shapes, text and the double-precision oracle come from it; its expressions have guards that
  /// no file can have (safe, absorb).
  Algorithm algorithm;
  Recurrence recurrence;  // of what made the parts
  PartStates states;
  std::map<std::string, std::string> parts_of;  // the input that holds an output of all parts, by output
  std::string count;                            // the extent that is the number of parts
};

/// `parts_type` is that of the parts of outputs which have an axis beyond the rows; without it they have the type of
/// the request. One number a row is f32. Throws UserError where outputs do not determine a state, or none streams.
Merge derive_merge(const Algorithm& algorithm, std::optional<ScalarType> parts_type = std::nullopt);

}  // namespace astatide
