#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache.h"

namespace astatide::runtime {

// What lies in the cache's root beside entries: those that are being written, and locks.
constexpr const char* kAsideName = "tmp";
constexpr const char* kLocksName = "locks";

constexpr std::string_view kManifestName = "manifest";
constexpr std::uint64_t kMostBytesOfAManifest = 1 << 16;

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

/// Whether `text` begins like a manifest that a program with another kCacheVersion wrote.
bool is_manifest_of_another_version(std::string_view text);

/// The files of an entry that is whole and undamaged; else nothing, and the reason in `damage`.
std::optional<CacheFiles> read_files(const FileDescriptor& entry, const std::string& key, std::string& damage);

}  // namespace astatide::runtime
