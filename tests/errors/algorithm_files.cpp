// Each tests/errors/algorithm/NAME.yaml is refused with the text of NAME.expected.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/algorithm/algorithm.h"
#include "tests/support/paths.h"

namespace astatide::testing {
namespace {

std::string file_refusal(const std::string& text, const std::string& file) {
  try {
    parse_algorithm(text, file);
  } catch (const UserError& error) {
    return std::string(error.what()) + "\n";
  }
  return "accepted\n";
}

}  // namespace

TEST_CASE("Every wrong algorithm file is refused with the place and what to try") {
  const char* update = std::getenv("UPDATE_GOLDENS");
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/errors/algorithm")))
    if (entry.path().extension() == ".yaml") files.insert(entry.path());
  REQUIRE(files.size() >= 60);
  for (const std::filesystem::path& file : files) {
    std::filesystem::path expected = file;
    expected.replace_extension(".expected");
    const std::string message = file_refusal(text_of(file), file.filename().string());
    if (update && std::string(update) == "1") {
      std::ofstream(expected, std::ios::binary) << message;
      continue;
    }
    INFO(file);
    REQUIRE(std::filesystem::exists(expected));
    CHECK(message == text_of(expected));
    CHECK(message != "accepted\n");
  }
}

}  // namespace astatide::testing
