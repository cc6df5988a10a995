#include "runtime/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "compiler/support/diagnostic.h"
#include "runtime/cache_aside.h"
#include "runtime/cache_files.h"
#include "runtime/cache_lock.h"
#include "runtime/cache_manifest.h"

namespace astatide::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytesOfAFile = std::uint64_t{1} << 30;
// Entries are renamed away by those who evict and replace; to meet that more often than this is no accident.
constexpr int kMostReads = 8;

}  // namespace

CacheKeyBuilder::CacheKeyBuilder() { add("astatide cache", std::to_string(kCacheVersion)); }

CacheKeyBuilder& CacheKeyBuilder::add(std::string_view field, std::string_view value) {
  // The lengths keep two lists of fields apart whose texts run together to the same bytes.
  hash_.update(fmt::format("{}:{}:", field.size(), value.size())).update(field).update(value);
  return *this;
}

const std::string* find_file(const CacheFiles& files, std::string_view name) {
  for (const CacheFile& file : files) {
    if (file.name == name) return &file.bytes;
  }
  return nullptr;
}

DiskCache::DiskCache(fs::path root, std::optional<std::uint64_t> limit) : root_(std::move(root)), limit_(limit) {}

DiskCache::DiskCache(DiskCache&& other) noexcept
    : root_(std::move(other.root_)),
      limit_(other.limit_),
      warned_(std::move(other.warned_)),
      warnings_(std::move(other.warnings_)),
      unusable_(std::move(other.unusable_)) {}

DiskCache DiskCache::from_environment(const Environment& environment) {
  std::error_code error;
  const std::optional<std::uint64_t> limit = environment.cache_limit;
  // Base directories that aren't absolute are ignored, as the XDG specification demands; our own variable may be
  // relative.
  const auto absolute = [](const std::optional<std::string>& path) { return path && path->front() == '/'; };
  if (environment.cache_dir) return DiskCache(fs::absolute(*environment.cache_dir, error), limit);
  if (absolute(environment.xdg_cache_home)) return DiskCache(fs::path(*environment.xdg_cache_home) / "astatide", limit);
  if (absolute(environment.home)) return DiskCache(fs::path(*environment.home) / ".cache" / "astatide", limit);
  DiskCache none{fs::path()};
  none.warn(
      "no place for the kernel cache: set ASTATIDE_CACHE_DIR, XDG_CACHE_HOME or HOME; kernels are kept in memory only");
  return none;
}

FileDescriptor DiskCache::open_root(Missing missing) {
  if (root_.empty()) return {};
  FileDescriptor root(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root && errno == ENOENT) {
    if (missing == Missing::stays) return {};
    std::error_code failed;
    fs::create_directories(root_.parent_path(), failed);
    // Two processes may make it at once; what counts is whether it can be opened after that.
    if (!failed && ::mkdir(root_.c_str(), 0700) != 0 && errno != EEXIST) failed.assign(errno, std::system_category());
    if (failed) {
      warn_unusable("it can't be made: " + failed.message());
      return {};
    }
    root = FileDescriptor(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!root) {
    const int error = errno;
    struct stat status {};
    const bool exists = ::lstat(root_.c_str(), &status) == 0;
    if (exists && S_ISLNK(status.st_mode)) {
      warn_unusable("it is a symbolic link");
    } else if (exists && !S_ISDIR(status.st_mode)) {
      warn_unusable("it is no directory");
    } else {
      warn_unusable("it can't be opened: " + error_text(error));
    }
    return {};
  }
  struct stat status {};
  if (::fstat(root.number(), &status) != 0) {
    warn_unusable(error_text(errno));
    return {};
  }
  if (status.st_uid != ::geteuid()) {
    warn_unusable(fmt::format("it belongs to user {}, this process runs as {}", status.st_uid, ::geteuid()));
    return {};
  }
  if ((status.st_mode & 022) != 0) {
    warn_unusable(fmt::format("others may write to it (mode {:04o}); chmod 700 it", status.st_mode & 07777));
    return {};
  }
  return root;
}

std::optional<CacheFiles> DiskCache::find(const std::string& key) {
  if (!is_cache_key(key)) throw InternalError("no cache key: " + key);
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return std::nullopt;
  std::string damage;
  std::optional<CacheFiles> files = read_entry(root, key, damage);
  if (!damage.empty()) {
    warn(fmt::format("{}/{}: cache entry ignored and built anew: {}", root_.string(), key, damage));
  }
  return files;
}

std::optional<CacheFiles> DiskCache::read_entry(const FileDescriptor& root, const std::string& key,
                                                std::string& damage) {
  for (int n = 0; n < kMostReads; ++n) {
    damage.clear();
    FileDescriptor directory = open_directory_at(root, key);
    if (!directory) {
      if (errno != ENOENT) damage = fmt::format("it is no directory that can be read ({})", error_text(errno));
      return std::nullopt;
    }
    std::optional<CacheFiles> files = read_files(directory, key, damage);
    if (files) {
      // What was used last is evicted last. Where the place can only be read, nothing is evicted either.
      ::utimensat(directory.number(), kManifestName.data(), nullptr, 0);
      return files;
    }
    if (still_names(root, key, directory)) return std::nullopt;
  }
  damage.clear();
  return std::nullopt;
}

std::optional<CacheFiles> read_files(const FileDescriptor& directory, const std::string& key, std::string& damage) {
  if (!is_own(directory)) {
    damage = "it belongs to another user";
    return std::nullopt;
  }
  const auto text = read_own_file(directory, std::string(kManifestName), kMostBytesOfAManifest, damage);
  if (!text) return std::nullopt;
  const auto manifest = parse_manifest(*text);
  if (!manifest || manifest->key != key) {
    damage = is_manifest_of_another_version(*text) ? "it is of another version" : "its manifest is damaged";
    return std::nullopt;
  }
  CacheFiles files;
  for (const ManifestFile& listed : manifest->files) {
    auto bytes = read_own_file(directory, listed.name, std::min(listed.size, kMostBytesOfAFile), damage);
    if (!bytes) return std::nullopt;
    if (bytes->size() != listed.size) {
      damage = fmt::format("{} has {} bytes, {} were written", listed.name, bytes->size(), listed.size);
      return std::nullopt;
    }
    if (sha256_hex(*bytes) != listed.sha256) {
      damage = fmt::format("{} was changed", listed.name);
      return std::nullopt;
    }
    files.push_back({listed.name, std::move(*bytes)});
  }
  return files;
}

bool DiskCache::store(const std::string& key, const CacheFiles& files) {
  if (!is_cache_key(key)) throw InternalError("no cache key: " + key);
  for (const CacheFile& file : files) {
    if (!is_cache_file_name(file.name)) throw InternalError("no name for a file of a cache entry: " + file.name);
  }
  const FileDescriptor root = open_root(Missing::is_made);
  if (!root) return false;
  std::uint64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes.size();
  if (limit_ && bytes > *limit_) {
    warn(fmt::format("{}: an entry of {} bytes is not kept, the limit of the kernel cache is {}", root_.string(), bytes,
                     *limit_));
    return false;
  }
  const bool published = publish(root, key, files);
  if (published && limit_) evict(*limit_);
  return published;
}

bool DiskCache::publish(const FileDescriptor& root, const std::string& key, const CacheFiles& files) {
  const FileDescriptor aside = make_directory_at(root, kAsideName);
  const fs::path aside_path = root_ / kAsideName;
  AsideFolder entry;
  if (aside) entry = AsideFolder::make(aside, key);
  bool written = static_cast<bool>(entry);
  for (const CacheFile& file : files) written = written && write_new_file(entry.folder(), file.name, file.bytes);
  written = written && write_new_file(entry.folder(), std::string(kManifestName), print_manifest(key, files));
  if (!written) {
    const int error = errno;
    if (entry) remove_tree(aside_path / entry.name());
    warn_unusable("it can't be written: " + error_text(error));
    return false;
  }

  const auto rename_into_place = [&] {
    return ::renameat(aside.number(), entry.name().c_str(), root.number(), key.c_str()) == 0;
  };
  bool published = rename_into_place();
  if (!published && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)) {
    std::string damage;
    if (read_entry(root, key, damage)) {
      remove_tree(aside_path / entry.name());
      return true;
    }
    const std::string dead = unique_name(key);
    if (::renameat(root.number(), key.c_str(), aside.number(), dead.c_str()) == 0 || errno == ENOENT) {
      published = rename_into_place();
      // Another process may have replaced the damaged entry between the two renames.
      published = published || read_entry(root, key, damage).has_value();
    }
    remove_tree(aside_path / dead);
  }
  const int error = errno;
  remove_tree(aside_path / entry.name());
  if (!published) warn_unusable("it can't be written: " + error_text(error));
  remove_abandoned(aside, aside_path);
  return published;
}

DiskCache::Found DiskCache::find_or_build(const std::string& key, const std::function<CacheFiles()>& build,
                                          std::chrono::milliseconds patience) {
  if (auto files = find(key)) return {std::move(*files), false};

  CacheLock lock;
  if (const FileDescriptor root = open_root(Missing::is_made)) {
    if (const FileDescriptor locks = make_directory_at(root, kLocksName)) {
      lock = CacheLock::acquire(locks, key, patience);
      // Whoever held the lock may have published the entry while we waited.
      std::string damage;
      if (auto files = read_entry(root, key, damage)) return {std::move(*files), false};
    } else {
      warn_unusable("it can't be written: " + error_text(errno));
    }
  }
  Found found{build(), true};
  store(key, found.files);
  return found;
}

std::optional<std::string> DiskCache::why_unusable() {
  if (root_.empty()) return "there is no folder for the kernel cache";
  const std::lock_guard lock(mutex_);
  if (unusable_.empty()) return std::nullopt;
  return unusable_;
}

std::vector<std::string> DiskCache::take_warnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

void DiskCache::warn(std::string message) {
  const std::lock_guard lock(mutex_);
  if (warned_.insert(message).second) warnings_.push_back(std::move(message));
}

void DiskCache::warn_unusable(const std::string& reason) {
  std::string message =
      fmt::format("the kernel cache {} is not used, kernels are kept in memory only: {}", root_.string(), reason);
  {
    const std::lock_guard lock(mutex_);
    if (!unusable_.empty()) return;
    unusable_ = message;
  }
  warn(std::move(message));
}

}  // namespace astatide::runtime
