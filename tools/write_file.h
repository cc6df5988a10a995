#pragma once

#include <string>

namespace astatide::tools {

/// The file appears whole or not at all. Throws UserError where it can't be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace astatide::tools
