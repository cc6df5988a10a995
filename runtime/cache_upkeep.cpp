// What keeps a store in order: what it holds, what of it is damaged, and what goes.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "compiler/support/diagnostic.h"
#include "runtime/cache.h"
#include "runtime/cache_aside.h"
#include "runtime/cache_files.h"
#include "runtime/cache_lock.h"
#include "runtime/cache_manifest.h"

namespace astatide::runtime {

namespace fs = std::filesystem;

/// An entry as the file system has it.
struct DiskCache::Item {
  std::string key;
  std::uint64_t bytes = 0;
  struct timespec used {};

  bool operator<(const Item& other) const {
    if (used.tv_sec != other.used.tv_sec) return used.tv_sec < other.used.tv_sec;
    return used.tv_nsec < other.used.tv_nsec;
  }
};

namespace {

/// Names in a folder, in order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator item(folder, failed), end; !failed && item != end; item.increment(failed))
    names.push_back(item->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

constexpr const char* kEvictLock = "evict";  // of who looks for what to evict

/// Locks that processes left which were killed.
void remove_free_locks(const FileDescriptor& locks, const fs::path& path) {
  // A lock removes its file when it is released.
  for (const std::string& name : names_in(path))
    if (is_cache_key(name) || name == kEvictLock) CacheLock::acquire(locks, name, std::chrono::milliseconds(0));
}

}  // namespace

std::vector<DiskCache::Item> DiskCache::items(const FileDescriptor& root) {
  std::vector<Item> out;
  for (const std::string& key : names_in(root_)) {
    if (!is_cache_key(key)) continue;
    const FileDescriptor entry = open_directory_at(root, key);
    if (!entry || !is_own(entry)) continue;
    Item item{key, 0, {}};
    for (const std::string& name : names_in(root_ / key)) {
      struct stat status {};
      if (::fstatat(entry.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      item.bytes += static_cast<std::uint64_t>(status.st_size);
      // See read_entry.
      if (name == kManifestName) item.used = status.st_mtim;
    }
    out.push_back(std::move(item));
  }
  return out;
}

std::vector<CacheEntryInfo> DiskCache::list() {
  std::vector<CacheEntryInfo> entries;
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return entries;
  for (const Item& item : items(root)) {
    const FileDescriptor directory = open_directory_at(root, item.key);
    std::string damage;
    const auto text =
        directory ? read_own_file(directory, std::string(kManifestName), kMostBytesOfAManifest, damage) : std::nullopt;
    const auto manifest = text ? parse_manifest(*text) : std::nullopt;
    if (!manifest) continue;
    CacheEntryInfo info;
    info.key = item.key;
    info.last_used = item.used.tv_sec;
    for (const ManifestFile& file : manifest->files) {
      info.bytes += file.size;
      info.files.push_back(file.name);
    }
    entries.push_back(std::move(info));
  }
  return entries;
}

CacheUsage DiskCache::usage() {
  CacheUsage usage;
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return usage;
  for (const Item& item : items(root)) {
    ++usage.entries;
    usage.bytes += item.bytes;
  }
  return usage;
}

std::vector<CacheDamage> DiskCache::verify() {
  std::vector<CacheDamage> out;
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return out;
  for (const std::string& key : names_in(root_)) {
    if (!is_cache_key(key)) continue;
    const FileDescriptor directory = open_directory_at(root, key);
    std::string damage = "it is no directory that can be read";
    // Another may have removed it meanwhile.
    if (directory && (read_files(directory, key, damage) || !still_names(root, key, directory))) continue;
    if (!directory && errno == ENOENT) continue;
    std::string ignored;
    const auto text =
        directory ? read_own_file(directory, std::string(kManifestName), kMostBytesOfAManifest, ignored) : std::nullopt;
    out.push_back({key, damage, text && is_manifest_of_another_version(*text)});
  }
  return out;
}

bool DiskCache::remove_entry(const FileDescriptor& root, const FileDescriptor& aside, const std::string& key) {
  // Renamed first: a reader then finds the whole entry or none.
  const std::string dead = unique_name(key);
  if (::renameat(root.number(), key.c_str(), aside.number(), dead.c_str()) != 0) return false;
  remove_tree(root_ / kAsideName / dead);
  return true;
}

std::size_t DiskCache::evict(std::uint64_t limit) {
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return 0;
  const FileDescriptor aside = make_directory_at(root, kAsideName);
  const FileDescriptor locks = make_directory_at(root, kLocksName);
  if (!aside || !locks) {
    warn_unusable("it can't be written: " + error_text(errno));
    return 0;
  }
  const CacheLock alone = CacheLock::acquire(locks, kEvictLock, std::chrono::milliseconds(0));
  if (!alone && errno == EWOULDBLOCK) return 0;
  std::vector<Item> all = items(root);
  std::uint64_t bytes = 0;
  for (const Item& item : all) bytes += item.bytes;
  std::stable_sort(all.begin(), all.end());
  std::size_t removed = 0;
  for (const Item& item : all) {
    if (bytes <= limit) break;
    bytes -= item.bytes;
    if (remove_entry(root, aside, item.key)) ++removed;
  }
  return removed;
}

std::size_t DiskCache::clear() {
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) {
    if (const auto why = why_unusable(); why && !root_.empty()) throw UserError(*why);
    return 0;
  }
  const FileDescriptor aside = make_directory_at(root, kAsideName);
  if (!aside)
    throw UserError(fmt::format("the kernel cache {} can't be written: {}", root_.string(), error_text(errno)));
  std::size_t removed = 0;
  for (const std::string& key : names_in(root_))
    if (is_cache_key(key) && remove_entry(root, aside, key)) ++removed;
  remove_abandoned(aside, root_ / kAsideName);
  if (const FileDescriptor locks = open_directory_at(root, kLocksName))
    if (is_own(locks)) remove_free_locks(locks, root_ / kLocksName);
  return removed;
}

}  // namespace astatide::runtime
