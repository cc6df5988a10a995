#include "runtime/cache_aside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <vector>

#include "runtime/cache_files.h"

namespace astatide::runtime {
namespace {

namespace fs = std::filesystem;

// Where there are no locks: a process that writes an entry for longer than this has died.
constexpr std::chrono::hours kAbandonedAfter{1};
// Others may take a folder for abandoned between the calls that make and lock it.
constexpr int kMostNames = 16;

/// Removes a folder whose writer has died. It stays locked until it is gone: a writer that has made it and not yet
/// locked it sees that, and takes another.
void remove_if_abandoned(const FileDescriptor& parent, const fs::path& path) {
  std::error_code failed;
  const auto written = fs::last_write_time(path, failed);
  const bool old = !failed && fs::file_time_type::clock::now() - written > kAbandonedAfter;
  const FileDescriptor folder = open_directory_at(parent, path.filename().string());
  const bool locked = folder && ::flock(folder.number(), LOCK_EX | LOCK_NB) == 0;
  const bool lives = folder && !locked && errno == EWOULDBLOCK;
  if (locked || (old && !lives)) remove_tree(path);
}

}  // namespace

std::string unique_name(const std::string& key) {
  static std::atomic<std::uint64_t> calls{0};
  std::random_device random;
  return fmt::format("{}.{}.{}.{:08x}", key.substr(0, 16), ::getpid(), calls++, random());
}

AsideFolder AsideFolder::make(const FileDescriptor& parent, const std::string& key) {
  for (int n = 0; n < kMostNames; ++n) {
    AsideFolder made;
    made.name_ = unique_name(key);
    if (::mkdirat(parent.number(), made.name_.c_str(), 0700) != 0) return {};
    made.folder_ = open_directory_at(parent, made.name_);
    if (!made.folder_ && errno != ENOENT) return {};
    if (!made.folder_) continue;
    if (::flock(made.folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    if (still_names(parent, made.name_, made.folder_)) return made;
  }
  errno = EBUSY;
  return {};
}

void remove_abandoned(const FileDescriptor& parent, const fs::path& path) {
  std::error_code ignored;
  // The names first: what is removed would change what is walked through.
  std::vector<fs::path> all;
  for (fs::directory_iterator item(path, ignored), end; !ignored && item != end; item.increment(ignored))
    all.push_back(item->path());
  for (const fs::path& folder : all) remove_if_abandoned(parent, folder);
}

}  // namespace astatide::runtime
