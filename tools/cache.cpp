#include "runtime/cache.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/algorithm/names.h"
#include "compiler/support/diagnostic.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

struct CacheWords {
  std::string action, limit;
  bool json = false;
};

std::string list_text(const std::vector<runtime::CacheEntryInfo>& entries) {
  std::string out;
  std::uint64_t bytes = 0;
  for (const runtime::CacheEntryInfo& entry : entries) {
    out += fmt::format("{}  {:>9} bytes  {}\n", entry.key, entry.bytes, fmt::join(entry.files, " "));
    bytes += entry.bytes;
  }
  return out + fmt::format("{} entries, {} bytes\n", entries.size(), bytes);
}

/// Says what it found, for people, and adds it to `json`.
using Action = std::string (*)(runtime::DiskCache& cache, const CacheWords& words, nlohmann::json& json);

std::string path_of(runtime::DiskCache& cache, const CacheWords&, nlohmann::json&) {
  return cache.root().string() + "\n";
}

std::string list(runtime::DiskCache& cache, const CacheWords&, nlohmann::json& json) {
  const std::vector<runtime::CacheEntryInfo> entries = cache.list();
  json["entries"] = nlohmann::json::array();
  for (const runtime::CacheEntryInfo& entry : entries)
    json["entries"].push_back(
        {{"key", entry.key}, {"bytes", entry.bytes}, {"files", entry.files}, {"last_used", entry.last_used}});
  return list_text(entries);
}

std::string limit_text(const runtime::DiskCache& cache) {
  return cache.limit() ? fmt::format("{} bytes", *cache.limit()) : "none";
}

std::string size(runtime::DiskCache& cache, const CacheWords&, nlohmann::json& json) {
  const runtime::CacheUsage usage = cache.usage();
  json["entries"] = usage.entries;
  json["bytes"] = usage.bytes;
  json["limit"] = cache.limit() ? nlohmann::json(*cache.limit()) : nlohmann::json();
  return fmt::format("{} entries, {} bytes, limit {}\n", usage.entries, usage.bytes, limit_text(cache));
}

std::string limit(runtime::DiskCache& cache, const CacheWords&, nlohmann::json& json) {
  json["limit"] = cache.limit() ? nlohmann::json(*cache.limit()) : nlohmann::json();
  return limit_text(cache) + "\n";
}

std::string evict(runtime::DiskCache& cache, const CacheWords& words, nlohmann::json& json) {
  std::optional<std::uint64_t> most = cache.limit();
  if (!words.limit.empty()) {
    most = runtime::parse_bytes(words.limit);
    if (!most)
      throw UserError({"--limit", 0, 0, {}}, fmt::format("'{}' is no number of bytes", quoted(words.limit)),
                      {"500M and 2G are"});
  }
  const std::size_t removed = most ? cache.evict(*most) : 0;
  json["removed"] = removed;
  return fmt::format("{} entries removed from {}\n", removed, cache.root().string());
}

std::string clear(runtime::DiskCache& cache, const CacheWords&, nlohmann::json& json) {
  const std::size_t removed = cache.clear();
  json["removed"] = removed;
  return fmt::format("{} entries removed from {}\n", removed, cache.root().string());
}

std::string verify(runtime::DiskCache& cache, const CacheWords&, nlohmann::json& json) {
  const std::vector<runtime::CacheDamage> damaged = cache.verify();
  json["damaged"] = nlohmann::json::array();
  std::string text;
  for (const runtime::CacheDamage& entry : damaged) {
    json["damaged"].push_back({{"key", entry.key}, {"what", entry.what}, {"other_version", entry.other_version}});
    if (!entry.other_version) json["ok"] = false;
    text += fmt::format("{}  {}\n", entry.key, entry.what);
  }
  return text + fmt::format("{} entries, {} of them can't be used\n", cache.usage().entries, damaged.size());
}

const std::vector<std::pair<std::string, Action>>& actions() {
  static const std::vector<std::pair<std::string, Action>> all = {
      {"list", list},   {"size", size},   {"limit", limit}, {"verify", verify},
      {"evict", evict}, {"clear", clear}, {"path", path_of}};
  return all;
}

std::vector<std::string> action_names() {
  std::vector<std::string> names;
  for (const auto& [name, action] : actions()) names.push_back(name);
  return names;
}

int run(const CacheWords& words) {
  const auto action = std::find_if(actions().begin(), actions().end(),
                                   [&](const auto& candidate) { return candidate.first == words.action; });
  if (action == actions().end())
    throw UserError(fmt::format("astatide cache does not know '{}'", quoted(words.action)),
                    suggestion(words.action, action_names()));
  if (!words.limit.empty() && words.action != "evict")
    throw UserError({"--limit", 0, 0, {}}, "only evict takes a limit", {"ASTATIDE_CACHE_LIMIT sets that of the cache"});
  runtime::DiskCache cache = runtime::DiskCache::from_environment(runtime::read_environment());
  nlohmann::json json = {{"ok", true}, {"path", cache.root().string()}};
  const std::string text = action->second(cache, words, json);
  const std::vector<std::string> warnings = cache.take_warnings();
  json["warnings"] = warnings;
  write_output(words.json ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : text);
  if (!words.json)
    for (const std::string& warning : warnings) write_message("warning: " + warning + "\n");
  return json.at("ok") ? kDone : kCheckFailed;
}

}  // namespace

Command add_cache_command(CLI::App& program) {
  const auto words = std::make_shared<CacheWords>();
  CLI::App* app = program.add_subcommand("cache", "The kernel cache: what is in it, and where.");
  app->add_option("ACTION", words->action, fmt::format("{}", fmt::join(action_names(), ", ")))->required();
  app->add_option("--limit", words->limit, "of evict: bytes to come down to, such as 500M; else the limit of the cache")
      ->type_name("SIZE");
  app->add_flag("--json", words->json, "one JSON object on standard output");
  app->footer(
      "ASTATIDE_CACHE_DIR moves the cache; ASTATIDE_CACHE_LIMIT (1G) is the most that it holds, none is any number.");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
