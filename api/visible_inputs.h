#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/random_tensors.h"
#include "compiler/visible.h"

namespace astatide {

/// Of a launch with these inputs, of which masks read those of integers and booleans.
VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         const HostTensors& inputs);

/// Of a launch with random inputs: booleans are as random_tensor makes them.
VisibleWork visible_work(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                         std::uint64_t seed);

}  // namespace astatide
