#include "runtime/cache_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace astatide::runtime {
namespace {

constexpr std::size_t kMostFiles = 64;

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Takes what stands before `end` off the front of `text`, and `end` with it.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

}  // namespace

bool is_cache_key(std::string_view name) { return is_hex(name, 64); }

bool is_cache_file_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= 100 && name.front() != '.' && name != kManifestName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string print_manifest(const std::string& key, const CacheFiles& files) {
  std::string text = fmt::format("astatide cache {}\nkey {}\n", kCacheVersion, key);
  for (const CacheFile& file : files) {
    text += fmt::format("file {} {} {}\n", file.name, file.bytes.size(), sha256_hex(file.bytes));
  }
  return text + "end\n";
}

std::optional<Manifest> parse_manifest(std::string_view text) {
  Manifest manifest;
  if (take_until(text, '\n') != fmt::format("astatide cache {}", kCacheVersion)) return std::nullopt;
  if (take_until(text, ' ') != "key") return std::nullopt;
  const auto key = take_until(text, '\n');
  if (!key || !is_cache_key(*key)) return std::nullopt;
  manifest.key = *key;
  while (text != "end\n") {
    if (manifest.files.size() == kMostFiles || take_until(text, ' ') != "file") return std::nullopt;
    const auto name = take_until(text, ' ');
    const auto size = take_until(text, ' ');
    const auto hash = take_until(text, '\n');
    if (!name || !size || !hash || !is_cache_file_name(*name) || !is_hex(*hash, 64)) return std::nullopt;
    ManifestFile file;
    file.name = *name;
    file.sha256 = *hash;
    const auto [end, error] = std::from_chars(size->data(), size->data() + size->size(), file.size);
    if (error != std::errc() || end != size->data() + size->size()) return std::nullopt;
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

bool is_manifest_of_another_version(std::string_view text) {
  const auto line = take_until(text, '\n');
  constexpr std::string_view kStart = "astatide cache ";
  if (!line || !line->starts_with(kStart)) return false;
  const std::string_view version = line->substr(kStart.size());
  return !version.empty() && version.find_first_not_of("0123456789") == std::string_view::npos &&
         version != std::to_string(kCacheVersion);
}

}  // namespace astatide::runtime
