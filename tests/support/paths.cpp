#include "tests/support/paths.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace astatide::testing {

std::filesystem::path source_path(std::string_view relative) {
  const char* root = std::getenv("ASTATIDE_ROOT");
  return std::filesystem::path(root ? root : ASTATIDE_SOURCE_DIR) / relative;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool updates_goldens() {
  const char* update = std::getenv("UPDATE_GOLDENS");
  return update != nullptr && std::string_view(update) == "1";
}

std::filesystem::path program_path() {
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "astatide";
  if (!error && std::filesystem::exists(beside)) return beside;
  return std::filesystem::path(ASTATIDE_BINARY_DIR) / "bin" / "astatide";
}

}  // namespace astatide::testing
