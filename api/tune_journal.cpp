#include "api/tune_journal.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "compiler/algorithm/names.h"

namespace astatide {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

Json json_of(const TunedPoint& point) {
  return {{"what", point.what},
          {"failure", point.failure},
          {"message", point.message},
          {"predicted", point.predicted},
          {"median_ms", point.median_ms},
          {"least_ms", point.least_ms},
          {"most_ms", point.most_ms},
          {"ratio", point.ratio},
          {"confidence", point.confidence},
          {"better", point.better},
          {"registers", point.registers},
          {"spill_bytes", point.spill_bytes},
          {"shared_bytes", point.shared_bytes}};
}

TunedPoint point_of(const Json& json) {
  TunedPoint point;
  json.at("what").get_to(point.what);
  json.at("failure").get_to(point.failure);
  json.at("message").get_to(point.message);
  json.at("predicted").get_to(point.predicted);
  json.at("median_ms").get_to(point.median_ms);
  json.at("least_ms").get_to(point.least_ms);
  json.at("most_ms").get_to(point.most_ms);
  json.at("ratio").get_to(point.ratio);
  json.at("confidence").get_to(point.confidence);
  json.at("better").get_to(point.better);
  json.at("registers").get_to(point.registers);
  json.at("spill_bytes").get_to(point.spill_bytes);
  json.at("shared_bytes").get_to(point.shared_bytes);
  point.resumed = true;
  return point;
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

/// Lines of a journal that are whole, and how many bytes they are.
struct Lines {
  std::vector<Json> lines;
  std::size_t bytes = 0;
  bool torn = false;
};

Lines read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Lines out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      out.torn = true;
      break;
    }
    try {
      out.lines.push_back(Json::parse(text.substr(begin, end - begin)));
    } catch (const Json::exception&) {
      const int number = static_cast<int>(out.lines.size()) + 1;
      throw UserError({path, number, 1, text.substr(begin, std::min<std::size_t>(end - begin, 200))},
                      "the line is none of a journal of tune", {"remove the file to begin anew"});
    }
    out.bytes = begin = end + 1;
  }
  return out;
}

}  // namespace

TuneJournal::TuneJournal(const std::string& path, const JournalKey& key, bool resume) : path_(path) {
  if (path.empty()) {
    if (resume) throw UserError("there is no journal to resume from", {"name the file that tune wrote"});
    return;
  }
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored) && std::filesystem::file_size(path, ignored) > 0;
  Lines found;
  if (exists) {
    found = read_lines(path);
    // One that holds no point has nothing to lose.
    const bool ended = found.lines.size() <= 1 || found.lines.back().contains("end");
    if (!resume && !ended)
      throw UserError({path, 0, 0, ""}, "the journal is of a search that has not ended",
                      {"--resume goes on with it", "remove the file to begin anew"});
    if (!resume) found = {};
  }
  const Json first = {{"astatide_tune", kVersion}, {"search", key}};
  if (!found.lines.empty()) {
    const Json& there = found.lines.front();
    if (!there.is_object() || !there.contains("astatide_tune") || !there.contains("search") ||
        !there["search"].is_object())
      throw UserError({path, 1, 1, ""}, "the file is no journal of tune");
    Diagnostics errors;
    if (there["astatide_tune"] != kVersion)
      errors.error({path, 1, 1, ""}, fmt::format("the journal is of version {}, this program reads {}",
                                                 there["astatide_tune"].dump(), kVersion));
    for (const auto& [name, value] : key)
      if (const std::string was = there["search"].value(name, ""); was != value)
        errors.error({path, 1, 1, ""}, fmt::format("the journal is of another search: {} is {} there, {} here", name,
                                                   quoted(was), quoted(value)));
    errors.throw_if_any();
    for (std::size_t n = 1; n < found.lines.size(); ++n) {
      if (found.lines[n].contains("end")) continue;
      try {
        TunedPoint point = point_of(found.lines[n]);
        known_[point.what] = std::move(point);
      } catch (const Json::exception& error) {
        throw UserError({path, static_cast<int>(n) + 1, 1, ""},
                        fmt::format("the line is no point of a search: {}", error.what()));
      }
    }
    if (found.torn) warnings_.push_back(fmt::format("{}: the last line was cut short, and is left out", path));
  }
  file_ = runtime::FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file_ || ::ftruncate(file_.number(), static_cast<off_t>(found.bytes)) != 0)
    throw UserError({path, 0, 0, ""}, fmt::format("the journal can't be written: {}", runtime::error_text(errno)));
  if (found.lines.empty()) write(text_of(first));
}

void TuneJournal::add(const TunedPoint& point) {
  if (file_) write(text_of(json_of(point)));
}

void TuneJournal::end() {
  if (file_) write(text_of({{"end", true}}));
}

void TuneJournal::write(const std::string& line) {
  // In one call, so that what is torn is the end of the file.
  if (::write(file_.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw MachineError(fmt::format("{} can't be written: {}", path_, runtime::error_text(errno)));
}

}  // namespace astatide
