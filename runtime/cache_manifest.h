#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache.h"

namespace astatide::runtime {

constexpr std::string_view kManifestName = "manifest";

struct ManifestFile {
  std::string name;
  std::uint64_t size = 0;
  std::string sha256;
};

/// The list of an entry's files:
///
///     astatide cache 1
///     key KEY
///     file NAME SIZE SHA256
///     end
struct Manifest {
  std::string key;
  std::vector<ManifestFile> files;
};

bool is_cache_key(std::string_view name);
bool is_cache_file_name(std::string_view name);

std::string print_manifest(const std::string& key, const CacheFiles& files);
/// Nothing when `text` isn't exactly of the form that print_manifest writes.
std::optional<Manifest> parse_manifest(std::string_view text);

}  // namespace astatide::runtime
