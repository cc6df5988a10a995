#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "compiler/pipeline.h"
#include "compiler/tune/search.h"

namespace ASTATIDE_PUBLIC astatide {

/// Seconds that a program takes, as far as anything but a run can say; a search uses their ratios.
using PredictSeconds = std::function<double(const tile::Program& program, const Target& target,
                                            const std::map<std::string, std::int64_t>& extents)>;

/// What the cost model says (compiler/cost).
double modelled_seconds(const tile::Program& program, const Target& target,
                        const std::map<std::string, std::int64_t>& extents);

/// Whether a schedule compiles for these options and may be launched with their sizes, which hold all extents, and
/// what is predicted for it. Compiles to a program, not to code.
SearchAnswer ask_schedule(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                          const PredictSeconds& predict);

}  // namespace astatide
