#include "runtime/tuning_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/cache_aside.h"
#include "runtime/cache_files.h"
#include "runtime/cache_lock.h"

namespace astatide::runtime {
namespace {

using TuningJson = nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 26;
constexpr auto kPatience = std::chrono::seconds(10);

std::map<std::string, int> buckets(const std::map<std::string, std::int64_t>& extents) {
  std::map<std::string, int> out;
  for (const auto& [name, length] : extents) out[name] = length_bucket(length);
  return out;
}

TuningJson json_of(const TunedEntry& entry) {
  return {{"algorithm", entry.algorithm},
          {"algorithm_key", entry.algorithm_key},
          {"dtype", entry.dtype},
          {"device", entry.device},
          {"target", entry.target},
          {"known", entry.known},
          {"extents", entry.extents},
          {"schedule", entry.schedule},
          {"median_ms", entry.median_ms},
          {"confidence", entry.confidence},
          {"runner_up", entry.runner_up},
          {"driver", entry.driver},
          {"version", entry.version},
          {"method", entry.method},
          {"date", entry.date}};
}

TunedEntry entry_of(const TuningJson& json) {
  TunedEntry entry;
  json.at("algorithm").get_to(entry.algorithm);
  json.at("algorithm_key").get_to(entry.algorithm_key);
  json.at("dtype").get_to(entry.dtype);
  json.at("device").get_to(entry.device);
  json.at("target").get_to(entry.target);
  json.at("known").get_to(entry.known);
  json.at("extents").get_to(entry.extents);
  json.at("schedule").get_to(entry.schedule);
  json.at("median_ms").get_to(entry.median_ms);
  entry.confidence = json.value("confidence", 0.0);
  entry.runner_up = json.value("runner_up", "");
  entry.driver = json.value("driver", "");
  entry.version = json.value("version", "");
  entry.method = json.value("method", "");
  entry.date = json.value("date", "");
  return entry;
}

/// What a file holds, and why it is none where it is not.
struct Content {
  std::vector<TunedEntry> entries;
  std::string damage;
  bool put_aside = false;  // it is ours, and no file of this version
};

Content read(const FileDescriptor& folder, const std::string& name) {
  Content out;
  struct stat status {};
  if (::fstatat(folder.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) out.damage = error_text(errno);
    return out;
  }
  const std::optional<std::string> text = read_own_file(folder, name, kMostBytes, out.damage);
  if (!text) return out;
  try {
    const TuningJson json = TuningJson::parse(*text);
    const int version = json.at("astatide_tuning").get<int>();
    if (version != TuningStore::kVersion) {
      out.damage = fmt::format("it is of version {}, this program reads {}", version, TuningStore::kVersion);
      out.put_aside = true;
      return out;
    }
    for (const TuningJson& entry : json.at("entries")) out.entries.push_back(entry_of(entry));
  } catch (const TuningJson::exception& error) {
    out.entries.clear();
    out.damage = error.what();
    out.put_aside = true;
  }
  return out;
}

FileDescriptor open_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

int length_bucket(std::int64_t length) {
  int bucket = 0;
  for (std::int64_t end = 1; end < length && bucket < 62; end *= 2) ++bucket;
  return bucket;
}

bool TunedEntry::same_key(const TunedEntry& other) const {
  return algorithm_key == other.algorithm_key && dtype == other.dtype && device == other.device &&
         target == other.target && known == other.known && buckets(extents) == buckets(other.extents);
}

std::vector<TunedEntry> TuningStore::load(std::vector<std::string>& warnings) const {
  const FileDescriptor folder = open_folder(path_);
  if (!folder) return {};
  Content content = read(folder, path_.filename().string());
  if (!content.damage.empty())
    warnings.push_back(fmt::format("the tuned schedules in {} are not used: {}", path_.string(), content.damage));
  return std::move(content.entries);
}

bool TuningStore::keep(const TunedEntry& entry, std::vector<std::string>& warnings) const {
  const auto failed = [&](const std::string& why) {
    warnings.push_back(fmt::format("the tuned schedule can't be kept in {}: {}", path_.string(), why));
    return false;
  };
  std::error_code made;
  if (path_.has_parent_path() && !std::filesystem::exists(path_.parent_path(), made)) {
    std::filesystem::create_directories(path_.parent_path().parent_path(), made);
    // As the kernel cache, of which it is the place as a rule.
    if (::mkdir(path_.parent_path().c_str(), 0700) != 0 && errno != EEXIST) return failed(error_text(errno));
  }
  const FileDescriptor folder = open_folder(path_);
  if (!folder) return failed(error_text(errno));
  const std::string name = path_.filename().string();
  // One writer at a time: what others add is not lost. A file system without locks has the last writer's.
  const CacheLock lock = CacheLock::acquire(folder, name + ".lock", kPatience);
  Content content = read(folder, name);
  if (!content.damage.empty() && !content.put_aside) return failed(content.damage);
  if (content.put_aside) {
    const std::string aside = name + "." + unique_name("unreadable");
    if (::renameat(folder.number(), name.c_str(), folder.number(), aside.c_str()) != 0)
      return failed(error_text(errno));
    warnings.push_back(fmt::format("{} was put aside as {}: {}", path_.string(), aside, content.damage));
  }
  std::erase_if(content.entries, [&](const TunedEntry& other) { return other.same_key(entry); });
  content.entries.push_back(entry);
  TuningJson json = {{"astatide_tuning", kVersion}, {"entries", TuningJson::array()}};
  for (const TunedEntry& one : content.entries) json["entries"].push_back(json_of(one));
  const std::string fresh = unique_name(name);
  if (!write_new_file(folder, fresh, json.dump(1, ' ', false, TuningJson::error_handler_t::replace) + "\n") ||
      ::renameat(folder.number(), fresh.c_str(), folder.number(), name.c_str()) != 0) {
    const std::string why = error_text(errno);
    ::unlinkat(folder.number(), fresh.c_str(), 0);
    return failed(why);
  }
  return true;
}

}  // namespace astatide::runtime
