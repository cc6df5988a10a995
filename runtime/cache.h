#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/environment.h"
#include "runtime/file_descriptor.h"
#include "runtime/sha256.h"

namespace astatide::runtime {

/// Part of every key: a change of what entries hold or mean needs a new number.
constexpr int kCacheVersion = 1;

/// Builds a key: SHA-256 over named fields in the order in which they are added. Equal fields give equal keys in every
/// process. No time, path, user or order of earlier requests enters.
class CacheKeyBuilder {
 public:
  CacheKeyBuilder();
  CacheKeyBuilder& add(std::string_view field, std::string_view value);
  std::string key() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

/// One file of an entry. Names hold letters, digits, '.', '_' and '-', and don't begin with a dot.
struct CacheFile {
  std::string name;
  std::string bytes;

  friend bool operator==(const CacheFile&, const CacheFile&) = default;
};

using CacheFiles = std::vector<CacheFile>;

/// The bytes of the file `name`, or null.
const std::string* find_file(const CacheFiles& files, std::string_view name);

struct CacheEntryInfo {
  std::string key;
  std::uint64_t bytes = 0;  // of its files without the manifest
  std::vector<std::string> files;
  std::int64_t last_used = 0;  // seconds since 1970
};

/// What a store takes: entries of all versions, damaged ones too, with their manifests.
struct CacheUsage {
  std::size_t entries = 0;
  std::uint64_t bytes = 0;
};

/// An entry that can't be used, and why not.
struct CacheDamage {
  std::string key;
  std::string what;
  bool other_version = false;  // whole or not: a program of another version may use it
};

/// A store of compiled artifacts on disk: a directory per key, with the artifact's files and a manifest of their
/// SHA-256.
///
/// An entry is written aside and renamed into place, so that readers see a whole entry or none. What is read is checked
/// against the manifest; a damaged entry counts as absent and is replaced. Directories and files of another user,
/// symbolic links, and a place that others may write to are never used. A place that can't be used is no error: the
/// store then holds nothing, and says why in one warning. Where entries take more than the limit after one was added,
/// those that were used least recently are removed; who reads one of them finds all of it or nothing. Thread-safe;
/// processes may share the directory.
class DiskCache {
 public:
  /// Uses `root`, made with mode 0700 at the first store. An empty path is a store that never holds anything.
  /// `limit`: bytes; none: any number.
  explicit DiskCache(std::filesystem::path root, std::optional<std::uint64_t> limit = kDefaultCacheLimit);

  /// ASTATIDE_CACHE_DIR, else XDG_CACHE_HOME/astatide, else HOME/.cache/astatide, else none with a warning.
  static DiskCache from_environment(const Environment& environment);

  DiskCache(DiskCache&& other) noexcept;

  const std::filesystem::path& root() const { return root_; }
  std::optional<std::uint64_t> limit() const { return limit_; }

  /// The whole and undamaged entry of `key`, or nothing.
  std::optional<CacheFiles> find(const std::string& key);

  /// Publishes an entry, in place of a damaged one. False, with a warning, when the place can't be written; an entry
  /// that is there and whole stays, and counts as stored.
  bool store(const std::string& key, const CacheFiles& files);

  struct Found {
    CacheFiles files;
    bool built = false;  // by this call
  };

  /// The entry of `key`; else what `build` gives, which is stored. Of processes and threads that ask at once, one
  /// builds and the others wait for it, at most `patience`, after which they build for themselves. When `build` throws,
  /// nothing is published and the exception passes.
  Found find_or_build(const std::string& key, const std::function<CacheFiles()>& build,
                      std::chrono::milliseconds patience = std::chrono::seconds(120));

  /// All entries with a readable manifest, in order of their keys.
  std::vector<CacheEntryInfo> list();

  CacheUsage usage();

  /// Reads all entries; those that can't be used, in order of their keys.
  std::vector<CacheDamage> verify();

  /// Removes entries, those used least recently first, until the rest takes at most `limit` bytes; returns how many.
  /// Does nothing while another process does it.
  std::size_t evict(std::uint64_t limit);

  /// Removes all entries and everything left by processes that died; returns the number of entries. What isn't an entry
  /// stays. Throws UserError when the place belongs to somebody else.
  std::size_t clear();

  /// The reason why the store keeps nothing, once something was looked for or stored there; none while it works.
  std::optional<std::string> why_unusable();

  /// The warnings since the last call, each once.
  std::vector<std::string> take_warnings();

 private:
  enum class Missing { stays, is_made };

  FileDescriptor open_root(Missing missing);
  struct Item;
  std::vector<Item> items(const FileDescriptor& root);
  bool remove_entry(const FileDescriptor& root, const FileDescriptor& aside, const std::string& key);
  /// Nothing with an empty `damage` when there is no entry; nothing with a reason when there is one that can't be used.
  std::optional<CacheFiles> read_entry(const FileDescriptor& root, const std::string& key, std::string& damage);
  bool publish(const FileDescriptor& root, const std::string& key, const CacheFiles& files);
  void warn(std::string message);
  void warn_unusable(const std::string& reason);

  std::filesystem::path root_;
  std::optional<std::uint64_t> limit_;
  std::mutex mutex_;  // guards what follows
  std::set<std::string> warned_;
  std::vector<std::string> warnings_;
  std::string unusable_;  // the one warning about the place
};

}  // namespace astatide::runtime
