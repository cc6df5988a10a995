#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "api/astatide.h"
#include "api/tune.h"
#include "compiler/algorithm/names.h"
#include "compiler/algorithm/source_text.h"
#include "compiler/support/embedded.h"

namespace astatide {
namespace {

constexpr std::string_view kExtension = ".yaml";

std::string stem_of(const EmbeddedFile& file) {
  return std::string(file.name.substr(0, file.name.size() - kExtension.size()));
}

std::vector<std::string> names_of(std::span<const EmbeddedFile> files) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : files) names.push_back(stem_of(file));
  return names;
}

/// The whole file, or one byte more than a reader of it accepts: nothing larger is held.
std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError({path, 0, 0, {}}, "the file can't be opened");
  std::string text(kLongestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UserError({path, 0, 0, {}}, "the file can't be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

struct Found {
  std::string text;
  std::string file;  // for messages
};

/// A path before a shipped name, so that a file in the way is never a surprise.
Found find(const std::string& path_or_name, std::span<const EmbeddedFile> shipped, std::string_view what,
           std::string_view folder) {
  std::error_code error;
  const auto status = std::filesystem::status(path_or_name, error);
  if (!error && std::filesystem::exists(status) && !std::filesystem::is_directory(status))
    return {read_text(path_or_name), path_or_name};
  for (const EmbeddedFile& file : shipped) {
    const bool whole = file.name == path_or_name;
    if (whole || stem_of(file) == path_or_name)
      return {std::string(file.text), fmt::format("{}/{}", folder, file.name)};
  }
  const std::vector<std::string> names = names_of(shipped);
  const std::string near = nearest_name(path_or_name, names);
  throw UserError(
      fmt::format("no {} file {}, and none of this name is shipped", what, quoted(path_or_name)),
      {near.empty() ? fmt::format("shipped are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)});
}

}  // namespace

std::vector<std::string> shipped_algorithms() { return names_of(embedded_examples()); }
std::vector<std::string> shipped_schedules() { return names_of(embedded_schedules()); }
std::vector<std::string> shipped_spaces() { return names_of(embedded_spaces()); }

const std::vector<NamedSchedule>& shipped_candidates() {
  static const std::vector<NamedSchedule> candidates = [] {
    std::vector<NamedSchedule> out;
    for (const EmbeddedFile& file : embedded_schedules())
      out.push_back({stem_of(file), parse_schedule(std::string(file.text), std::string(file.name))});
    return out;
  }();
  return candidates;
}

Algorithm load_algorithm(const std::string& path_or_name) {
  const Found found = find(path_or_name, embedded_examples(), "algorithm", "examples");
  return parse_algorithm(found.text, found.file);
}

Schedule load_schedule(const std::string& path_or_name) {
  const Found found = find(path_or_name, embedded_schedules(), "schedule", "schedules");
  return parse_schedule(found.text, found.file);
}

ScheduleSpace load_space(const std::string& path_or_name) {
  const Found found = find(path_or_name, embedded_spaces(), "space", "schedules/spaces");
  return parse_space(found.text, found.file);
}

}  // namespace astatide
