#pragma once

#include <string>

#include "compiler/algorithm/yaml_document.h"
#include "compiler/schedule/schedule.h"

namespace astatide {

/// parse_schedule of what a file, or a part of one, holds; `name` is the schedule's.
Schedule parse_schedule_tree(const YamlNode& root, const std::string& file, const std::string& name,
                             Diagnostics& errors);

}  // namespace astatide
