#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/visibility.h"
#include "compiler/tile/ir.h"

namespace ASTATIDE_PUBLIC astatide {

/// A schedule by the name that people call it: "sm90/flash3", or a path.
struct NamedSchedule {
  std::string name;
  Schedule schedule;
};

struct DispatchRequest {
  Target target;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> sizes;  // every extent that a range of lengths asks for
};

/// What came of asking a schedule.
struct Candidate {
  std::string name;
  Schedule schedule;    // without what it says of names that the algorithm has not
  std::string why_not;  // empty: it serves the request
};

/// Asks each schedule that states what it serves, in the order of rank, then in the order given: whether it is for that
/// kind of machine, for the type and the lengths, and compiles for the target.
std::vector<Candidate> ask_schedules(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                                     const DispatchRequest& request);

/// The first that serves the request; the others are not asked. Throws UserError with what each said where none does.
NamedSchedule dispatch(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                       const DispatchRequest& request);

/// What depends on lengths that the code does not: why a launch with these extents would be refused. Empty where it
/// would not, as far as the extents say.
std::string refusal_at_launch(const tile::Program& program, const std::map<std::string, std::int64_t>& sizes);

}  // namespace astatide
