#include "runtime/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <random>

#include "compiler/support/diagnostic.h"
#include "runtime/cache_lock.h"
#include "runtime/cache_manifest.h"

namespace astatide::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytesOfAFile = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostBytesOfAManifest = 1 << 16;
constexpr const char* kAsideName = "tmp";
constexpr const char* kLocksName = "locks";
// A process that writes an entry for longer than this has died.
constexpr std::chrono::hours kAbandonedAfter{1};

bool is_own(const struct stat& status) { return status.st_uid == ::geteuid(); }

FileDescriptor open_directory_at(const FileDescriptor& parent, const char* name) {
  return FileDescriptor(::openat(parent.number(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Makes a directory of our own below `parent` where there is none, and opens it.
FileDescriptor make_directory_at(const FileDescriptor& parent, const char* name) {
  if (::mkdirat(parent.number(), name, 0700) != 0 && errno != EEXIST) return {};
  FileDescriptor directory = open_directory_at(parent, name);
  struct stat status {};
  if (!directory || ::fstat(directory.number(), &status) != 0) return {};
  if (!is_own(status)) {
    errno = EPERM;
    return {};
  }
  return directory;
}

// Reads a file of our own of at most `most` bytes. Says in `damage` why it can't.
std::optional<std::string> read_own_file(const FileDescriptor& directory, const std::string& name, std::uint64_t most,
                                         std::string& damage) {
  // O_NONBLOCK: a fifo that somebody put there must not stop us.
  const FileDescriptor file(::openat(directory.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0) {
    damage = fmt::format("{} can't be read: {}", name, error_text(errno));
    return std::nullopt;
  }
  if (!S_ISREG(status.st_mode) || !is_own(status)) {
    damage = fmt::format("{} is no file of this user", name);
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > most) {
    damage = fmt::format("{} has {} bytes, at most {} are expected", name, size, most);
    return std::nullopt;
  }
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      damage = fmt::format("{} ends after {} of {} bytes", name, done, bytes.size());
      return std::nullopt;
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool write_file(const FileDescriptor& directory, const std::string& name, std::string_view bytes) {
  const FileDescriptor file(
      ::openat(directory.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A name that no other process, thread or earlier call uses.
std::string unique_name(const std::string& key) {
  static std::atomic<std::uint64_t> calls{0};
  std::random_device random;
  return fmt::format("{}.{}.{}.{:08x}", key.substr(0, 16), ::getpid(), calls++, random());
}

// Whether the process that made `name` (see unique_name) no longer runs on this machine.
bool maker_died(const std::string& name) {
  const std::size_t start = name.find('.') + 1;
  const int pid = std::atoi(name.c_str() + start);
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

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

DiskCache::DiskCache(fs::path root) : root_(std::move(root)) {}

DiskCache::DiskCache(DiskCache&& other) noexcept
    : root_(std::move(other.root_)),
      warned_(std::move(other.warned_)),
      warnings_(std::move(other.warnings_)),
      unusable_(std::move(other.unusable_)) {}

DiskCache DiskCache::from_environment(const Environment& environment) {
  std::error_code error;
  // Base directories that aren't absolute are ignored, as the XDG specification demands; our own variable may be
  // relative.
  const auto absolute = [](const std::optional<std::string>& path) { return path && path->front() == '/'; };
  if (environment.cache_dir) return DiskCache(fs::absolute(*environment.cache_dir, error));
  if (absolute(environment.xdg_cache_home)) return DiskCache(fs::path(*environment.xdg_cache_home) / "astatide");
  if (absolute(environment.home)) return DiskCache(fs::path(*environment.home) / ".cache" / "astatide");
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
  if (!is_own(status)) {
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

// Nothing with an empty `damage` when there is no entry; nothing with a reason when there is one that can't be used.
std::optional<CacheFiles> DiskCache::read_entry(const FileDescriptor& root, const std::string& key,
                                                std::string& damage) {
  const FileDescriptor directory = open_directory_at(root, key.c_str());
  if (!directory) {
    if (errno != ENOENT) damage = fmt::format("it is no directory that can be read ({})", error_text(errno));
    return std::nullopt;
  }
  struct stat status {};
  if (::fstat(directory.number(), &status) != 0 || !is_own(status)) {
    damage = "it belongs to another user";
    return std::nullopt;
  }
  const auto text = read_own_file(directory, std::string(kManifestName), kMostBytesOfAManifest, damage);
  if (!text) return std::nullopt;
  const auto manifest = parse_manifest(*text);
  if (!manifest || manifest->key != key) {
    damage = "its manifest is damaged";
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
  return root && publish(root, key, files);
}

bool DiskCache::publish(const FileDescriptor& root, const std::string& key, const CacheFiles& files) {
  const FileDescriptor aside = make_directory_at(root, kAsideName);
  const std::string name = unique_name(key);
  const fs::path aside_path = root_ / kAsideName;
  FileDescriptor entry;
  bool written = aside && ::mkdirat(aside.number(), name.c_str(), 0700) == 0;
  if (written) {
    entry = open_directory_at(aside, name.c_str());
    written = static_cast<bool>(entry);
  }
  for (const CacheFile& file : files) written = written && write_file(entry, file.name, file.bytes);
  written = written && write_file(entry, std::string(kManifestName), print_manifest(key, files));
  if (!written) {
    const int error = errno;
    if (aside) remove_tree(aside_path / name);
    warn_unusable("it can't be written: " + error_text(error));
    return false;
  }

  const auto rename_into_place = [&] {
    return ::renameat(aside.number(), name.c_str(), root.number(), key.c_str()) == 0;
  };
  bool published = rename_into_place();
  if (!published && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)) {
    std::string damage;
    if (read_entry(root, key, damage)) {
      remove_tree(aside_path / name);
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
  remove_tree(aside_path / name);
  if (!published) warn_unusable("it can't be written: " + error_text(error));
  remove_abandoned();
  return published;
}

void DiskCache::remove_abandoned() {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  std::vector<fs::path> abandoned;
  for (const auto& item : fs::directory_iterator(root_ / kAsideName, ignored)) {
    std::error_code failed;
    const auto written = fs::last_write_time(item.path(), failed);
    if ((!failed && now - written > kAbandonedAfter) || maker_died(item.path().filename().string())) {
      abandoned.push_back(item.path());
    }
  }
  for (const fs::path& path : abandoned) remove_tree(path);
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

std::vector<CacheEntryInfo> DiskCache::list() {
  std::vector<CacheEntryInfo> entries;
  const FileDescriptor root = open_root(Missing::stays);
  if (!root) return entries;
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(root_, ignored)) {
    const std::string key = item.path().filename().string();
    if (!is_cache_key(key)) continue;
    const FileDescriptor directory = open_directory_at(root, key.c_str());
    std::string damage;
    const auto text =
        directory ? read_own_file(directory, std::string(kManifestName), kMostBytesOfAManifest, damage) : std::nullopt;
    const auto manifest = text ? parse_manifest(*text) : std::nullopt;
    if (!manifest) continue;
    CacheEntryInfo info;
    info.key = key;
    for (const ManifestFile& file : manifest->files) {
      info.bytes += file.size;
      info.files.push_back(file.name);
    }
    entries.push_back(std::move(info));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return entries;
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
  std::vector<std::string> keys;
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(root_, ignored)) {
    if (is_cache_key(item.path().filename().string())) keys.push_back(item.path().filename().string());
  }
  std::size_t removed = 0;
  for (const std::string& key : keys) {
    // Renamed first: a reader then finds the whole entry or none.
    const std::string dead = unique_name(key);
    if (::renameat(root.number(), key.c_str(), aside.number(), dead.c_str()) != 0) continue;
    remove_tree(root_ / kAsideName / dead);
    ++removed;
  }
  remove_abandoned();
  return removed;
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
