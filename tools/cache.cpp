#include "runtime/cache.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "compiler/algorithm/names.h"
#include "compiler/support/diagnostic.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

struct CacheWords {
  std::string action;
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

int run(const CacheWords& words) {
  runtime::DiskCache cache = runtime::DiskCache::from_environment(runtime::read_environment());
  nlohmann::json json = {{"ok", true}, {"path", cache.root().string()}};
  std::string text;
  if (words.action == "path") {
    text = cache.root().string() + "\n";
  } else if (words.action == "list") {
    const std::vector<runtime::CacheEntryInfo> entries = cache.list();
    json["entries"] = nlohmann::json::array();
    for (const runtime::CacheEntryInfo& entry : entries)
      json["entries"].push_back({{"key", entry.key}, {"bytes", entry.bytes}, {"files", entry.files}});
    text = list_text(entries);
  } else if (words.action == "clear") {
    const std::size_t removed = cache.clear();
    json["removed"] = removed;
    text = fmt::format("{} entries removed from {}\n", removed, cache.root().string());
  } else {
    throw UserError(fmt::format("astatide cache does not know '{}'", quoted(words.action)),
                    suggestion(words.action, {"list", "clear", "path"}));
  }
  const std::vector<std::string> warnings = cache.take_warnings();
  json["warnings"] = warnings;
  write_output(words.json ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : text);
  if (!words.json)
    for (const std::string& warning : warnings) write_message("warning: " + warning + "\n");
  return kDone;
}

}  // namespace

Command add_cache_command(CLI::App& program) {
  const auto words = std::make_shared<CacheWords>();
  CLI::App* app = program.add_subcommand("cache", "The kernel cache: what is in it, and where.");
  app->add_option("ACTION", words->action, "list, clear or path")->required();
  app->add_flag("--json", words->json, "one JSON object on standard output");
  app->footer("ASTATIDE_CACHE_DIR moves the cache.");
  return {app, [words] { return run(*words); }};
}

}  // namespace astatide::tools
