// Where tests find the files of the tree and the program, also in a bundle that was moved to another machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace astatide::testing {

/// A file of the source tree, for example source_path("examples/attention.yaml"). ASTATIDE_ROOT, when set, stands for
/// the root of the tree.
std::filesystem::path source_path(std::string_view relative);

/// What a file holds. Throws where there is none.
std::string text_of(const std::filesystem::path& path);

/// UPDATE_GOLDENS=1: goldens are written, not compared.
bool updates_goldens();

/// The command-line program: beside the running test when it is there, else in the build tree.
std::filesystem::path program_path();

}  // namespace astatide::testing
