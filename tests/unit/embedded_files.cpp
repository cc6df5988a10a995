#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <span>
#include <string>

#include "compiler/algorithm/names.h"
#include "compiler/support/embedded.h"
#include "tests/support/paths.h"

namespace {

using Texts = std::map<std::string, std::string>;

Texts texts_in_folder(const std::filesystem::path& folder, const std::string& extension) {
  Texts texts;
  if (!std::filesystem::exists(folder)) return texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != extension) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    texts[entry.path().lexically_relative(folder).string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return texts;
}

Texts texts_embedded(std::span<const astatide::EmbeddedFile> files) {
  Texts texts;
  for (const auto& file : files) texts.emplace(file.name, file.text);
  return texts;
}

}  // namespace

TEST_CASE("the library carries every device header byte by byte") {
  CHECK(texts_embedded(astatide::embedded_device_headers()) ==
        texts_in_folder(astatide::testing::source_path("runtime/device"), ".cuh"));
}

TEST_CASE("no name of an algorithm is that of a function or type of the device headers") {
  const std::regex declared(
      R"((?:__device__ __forceinline__ [\w ]*?|\nstruct (?:__align__\(\d+\) )?)[ *]?(\w+)(?:\(| \{))");
  std::size_t count = 0;
  for (const auto& [file, text] : texts_embedded(astatide::embedded_device_headers()))
    for (std::sregex_iterator match(text.begin(), text.end(), declared), end; match != end; ++match, ++count) {
      INFO(file << ": " << (*match)[1]);
      CHECK_FALSE(astatide::problem_with_name((*match)[1]).empty());
    }
  CHECK(count > 60);
}

TEST_CASE("the library carries every shipped schedule and space byte by byte") {
  Texts all = texts_embedded(astatide::embedded_schedules());
  const Texts spaces = texts_embedded(astatide::embedded_spaces());
  CHECK(spaces.size() >= 2);
  for (const auto& [name, text] : spaces) all.emplace("spaces/" + name, text);
  CHECK(all == texts_in_folder(astatide::testing::source_path("schedules"), ".yaml"));
}

TEST_CASE("the library carries every example algorithm byte by byte") {
  CHECK(texts_embedded(astatide::embedded_examples()) ==
        texts_in_folder(astatide::testing::source_path("examples"), ".yaml"));
}
